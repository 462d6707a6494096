package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sagacity-tx/sagacity/internal/bank"
)

// openTerminal makes a terminal, and what stands for its screen and keyboard.
func openTerminal(t *testing.T) (terminal, keyboard *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, keyboard
}

func TestReplayOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	transaction, letter := w.deadLetter()
	ask := func(answer string) int {
		terminal, keyboard := openTerminal(t)
		if _, err := keyboard.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		args := []string{"dlq", "replay", letter, "--reason", "test", "--server", w.url}
		return runWith(ctx, args, terminal, &strings.Builder{}, terminal)
	}
	if code := ask("n\n"); code != exitDeclined {
		t.Errorf("exit code %d after no, want %d", code, exitDeclined)
	}
	if code := ask("\n"); code != exitDeclined {
		t.Errorf("exit code %d after nothing, want %d", code, exitDeclined)
	}
	shown := w.run("dlq", "show", letter, "-o", "json").want(t, exitOK)
	if status := memberOf(t, shown.stdout, "status"); status != "open" {
		t.Errorf("the dead letter is %s after it was declined, want open", status)
	}
	if err := bank.Switch(t.Context(), w.bank, "down", false); err != nil {
		t.Fatal(err)
	}
	if code := ask("yes\n"); code != exitOK {
		t.Errorf("exit code %d after yes, want %d", code, exitOK)
	}
	w.run("tx", "wait", transaction).want(t, exitOK)
}

func TestAQuestionEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, letter := w.deadLetter()
	terminal, keyboard := openTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		buf := make([]byte, 4096)
		for seen := ""; !strings.Contains(seen, "[y/N]"); {
			n, err := keyboard.Read(buf)
			if err != nil {
				return
			}
			seen += string(buf[:n])
		}
		cancel()
	}()
	code := runWith(ctx, []string{"dlq", "replay", letter, "--reason", "test", "--server", w.url}, terminal, os.Stdout, terminal)
	<-asked
	if code != exitDeclined {
		t.Errorf("exit code %d, want %d", code, exitDeclined)
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	if styleOf(&strings.Builder{}).colours {
		t.Error("colours without a terminal")
	}
	terminal, _ := openTerminal(t)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	if !styleOf(terminal).colours {
		t.Error("no colours on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if styleOf(terminal).colours {
		t.Error("colours in spite of NO_COLOR")
	}
}
