// Package pgproxy stands between a client and a PostgreSQL server in tests and cuts connections at the moments
// that matter: before the server has seen the end of a transaction, after it has carried it out and before the
// client knows, and in the middle of the answer.
//
// It understands frames of the protocol (version 3, without TLS) and nothing else of it.
package pgproxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Cut says what happens to a connection whose client asks the server to finish a round: the Sync of a pipeline
// or a simple query, and with it the commit of an implicit transaction.
type Cut int

// The cuts.
const (
	None        Cut = iota
	Before          // the server does not see the message: what came before it is rolled back
	After           // the server has finished; the client gets no answer
	Middle          // the server has finished; the client gets half of the answer
	BeforeReady     // the server has finished; the client gets all but the last message
)

// Round is what a client has sent since the last one.
type Round struct {
	Statements int // executed; 0: it only prepares
}

// proxy accepts connections until the test ends.
type proxy struct {
	server string
	decide func(Round) Cut

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]struct{}
	running sync.WaitGroup
}

// Start starts a proxy for the test and returns the DSN of the same database through it. The DSN given is one
// of a unix socket. decide is called, by one connection at a time, for every round that a client finishes.
func Start(t testing.TB, dsn string, decide func(Round) Cut) (through string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatalf("pgproxy: parse the DSN: %v", err)
	}
	query := u.Query()
	dir, err := os.MkdirTemp("", "pgproxy") //nolint:usetesting // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := ".s.PGSQL." + query.Get("port")
	l, err := net.Listen("unix", filepath.Join(dir, socket)) //nolint:noctx // listening does not wait
	if err != nil {
		t.Fatalf("pgproxy: listen: %v", err)
	}
	p := &proxy{server: filepath.Join(query.Get("host"), socket), decide: decide, conns: make(map[net.Conn]struct{})}
	p.running.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		_ = l.Close()
		p.closeAll()
		p.running.Wait()
		_ = os.RemoveAll(dir)
	})
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	return u.String()
}

func (p *proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.server) //nolint:noctx // a local socket answers at once
		if err != nil {
			_ = client.Close() // the server is down
			continue
		}
		link := &link{proxy: p, client: client, server: server}
		if !p.track(client, server) {
			return
		}
		p.running.Go(link.up)
		p.running.Go(link.down)
	}
}

func (p *proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) next(r Round) Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.decide(r)
}

// link is one connection through the proxy.
type link struct {
	proxy          *proxy
	client, server net.Conn

	mu  sync.Mutex
	cut Cut // of the round whose answer comes next
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.server)
}

// up forwards what the client sends.
func (l *link) up() {
	defer l.close()
	in := bufio.NewReader(l.client)
	startup, err := readFrame(in, 0)
	if err != nil {
		return
	}
	var round Round
	for frame := startup; ; {
		switch frame[0] {
		case 'E':
			round.Statements++
		case 'Q':
			round.Statements++
			fallthrough
		case 'S':
			cut := l.proxy.next(round)
			if cut == Before {
				return
			}
			round = Round{}
			l.mu.Lock()
			l.cut = cut
			l.mu.Unlock()
		}
		if _, err := l.server.Write(frame); err != nil {
			return
		}
		if frame, err = readFrame(in, 1); err != nil {
			return
		}
	}
}

// down forwards what the server answers. The answer of a round that is to be cut is gathered whole first, so
// that the server has surely finished.
func (l *link) down() {
	defer l.close()
	in := bufio.NewReader(l.server)
	var held []byte
	for {
		frame, err := readFrame(in, 1)
		if err != nil {
			return
		}
		l.mu.Lock()
		cut := l.cut
		l.mu.Unlock()
		if cut == None {
			if _, err := l.client.Write(frame); err != nil {
				return
			}
			continue
		}
		if held = append(held, frame...); frame[0] != 'Z' {
			continue
		}
		switch cut {
		case Middle:
			_, _ = l.client.Write(held[:len(held)/2])
		case BeforeReady:
			_, _ = l.client.Write(held[:len(held)-len(frame)])
		default:
		}
		return
	}
}

// readFrame reads one message: typeBytes (none for the first one) and a length that includes itself.
func readFrame(in *bufio.Reader, typeBytes int) ([]byte, error) {
	head := make([]byte, typeBytes+4)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint32(head[typeBytes:]))
	if length < 4 || length > 1<<30 {
		return nil, fmt.Errorf("pgproxy: a message of %d bytes", length)
	}
	frame := make([]byte, typeBytes+length)
	copy(frame, head)
	_, err := io.ReadFull(in, frame[len(head):])
	return frame, err
}
