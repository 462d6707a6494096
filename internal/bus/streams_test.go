package bus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/bus"
)

func TestStreamsHaveTheirSettings(t *testing.T) { // C8, C12
	s := startServer(t)
	b := s.connect(bus.Config{})
	_, js := s.jetStream()
	for stream, check := range map[bus.Stream]func(c jetstream.StreamConfig) bool{
		bus.Commands: func(c jetstream.StreamConfig) bool {
			return c.Name == "SAGA_CMD" && c.Retention == jetstream.WorkQueuePolicy && c.DiscardNewPerSubject &&
				c.MaxMsgsPerSubject == bus.DefaultPerSubjectMax && c.AllowMsgTTL && c.Subjects[0] == "saga.cmd.*"
		},
		bus.Replies: func(c jetstream.StreamConfig) bool {
			return c.Name == "SAGA_REPLY" && c.Retention == jetstream.WorkQueuePolicy && c.Subjects[0] == "saga.reply.*.*"
		},
		bus.Submissions: func(c jetstream.StreamConfig) bool {
			return c.Name == "SAGA_SUBMIT" && c.Retention == jetstream.WorkQueuePolicy && c.MaxAge == 0
		},
		bus.Events: func(c jetstream.StreamConfig) bool {
			return c.Name == "SAGA_EVENT" && c.Retention == jetstream.LimitsPolicy && c.Discard == jetstream.DiscardOld
		},
	} {
		got, err := js.Stream(t.Context(), b.StreamName(stream))
		if err != nil {
			t.Fatal(err)
		}
		c := got.CachedInfo().Config
		if !check(c) || c.Storage != jetstream.FileStorage || c.Duplicates != bus.DefaultDuplicatesWindow {
			t.Errorf("stream %s: %+v", stream, c)
		}
	}
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

func TestStreamsAreUpdated(t *testing.T) {
	s := startServer(t)
	s.connect(bus.Config{})
	_, js := s.jetStream()
	age := func() time.Duration {
		got, err := js.Stream(t.Context(), "SAGA_CMD")
		if err != nil {
			t.Fatal(err)
		}
		return got.CachedInfo().Config.MaxAge
	}
	changed := bus.StreamSettings{CommandAgeMax: 2 * time.Hour}
	s.connect(bus.Config{Streams: changed, Manage: bus.ManageMissing})
	if age() != bus.DefaultCommandAgeMax {
		t.Error("ManageMissing changed a setting")
	}
	s.connect(bus.Config{Streams: changed})
	if age() != 2*time.Hour {
		t.Errorf("max age is %s", age())
	}
}

func TestSettingThatCannotBeChangedIsAnError(t *testing.T) {
	for name, c := range map[string]jetstream.StreamConfig{
		"retention": {Name: "SAGA_CMD", Subjects: []string{"saga.cmd.*"}},
		"storage":   {Name: "SAGA_CMD", Subjects: []string{"saga.cmd.*"}, Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy},
		"subjects":  {Name: "SAGA_CMD", Subjects: []string{"other.>"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			_, js := s.jetStream()
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			err := s.connectOnly(bus.Config{}).EnsureStreams(t.Context())
			var se *bus.SettingError
			if !errors.As(err, &se) || se.Setting != name || !strings.Contains(err.Error(), "SAGA_CMD") || se.Fix == "" {
				t.Errorf("EnsureStreams: %v", err)
			}
		})
	}
}

func TestSubjectsOfAnotherStream(t *testing.T) {
	s := startServer(t)
	_, js := s.jetStream()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{"saga.>"}}); err != nil {
		t.Fatal(err)
	}
	err := s.connectOnly(bus.Config{}).EnsureStreams(t.Context())
	var se *bus.SettingError
	if !errors.As(err, &se) || !strings.Contains(se.Fix, "another stream") {
		t.Errorf("EnsureStreams: %v", err)
	}
}

func TestManageNoneCreatesNothing(t *testing.T) {
	s := startServer(t)
	err := s.connectOnly(bus.Config{Manage: bus.ManageNone}).EnsureStreams(t.Context())
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("EnsureStreams: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]bus.Config{
		"prefix":     {Prefix: "a..b"},
		"in flight":  {PublishInFlightMax: -1},
		"timeout":    {PublishTimeout: -1},
		"manage":     {Manage: 7},
		"replicas":   {Streams: bus.StreamSettings{Replicas: 9}},
		"limit":      {Streams: bus.StreamSettings{PerSubjectMax: -5}},
		"duplicates": {Streams: bus.StreamSettings{DuplicatesWindow: 48 * time.Hour}},
		"URL":        {URL: "nats://user:secret@host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := bus.Connect(t.Context(), c); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("Connect: %v", err)
			}
		})
	}
	if _, err := bus.New(nil, bus.Config{}); err == nil {
		t.Error("New(nil) succeeded")
	}
}

func TestConnectSaysWhatItCouldNotReach(t *testing.T) {
	c := bus.Config{URL: "nats://u:secret@127.0.0.1:1", ConnectTimeout: 50 * time.Millisecond}
	_, err := bus.Connect(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "secret") {
		t.Errorf("Connect: %v", err)
	}
	c.Lazy = true
	b, err := bus.Connect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := publish(t, b, command("a", "1"))[0]; !errors.Is(err, bus.ErrDisconnected) {
		t.Errorf("Publish: %v", err)
	}
}

func TestURLsAreRedacted(t *testing.T) {
	got := bus.Redact("nats://u:p@a:4222, b:4222,token@c:1,:::bad")
	if want := "nats://a:4222,nats://b:4222,nats://c:1,(invalid URL)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
