package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sagacity-tx/sagacity/internal/tcp"
)

const (
	reconnectWait   = 250 * time.Millisecond // plus as much jitter: a fleet does not return in step
	dialTimeout     = 3 * time.Second
	writeTimeout    = 10 * time.Second
	pingInterval    = 5 * time.Second // with pingsMax, a dead peer is noticed within 15 s
	pingsMax        = 2
	requestTimeout  = 5 * time.Second // of one question to the JetStream API
	flushTimeout    = 2 * time.Second
	ensureEveryTime = time.Second
)

// Bus publishes to and consumes from the streams of one prefix over one connection. Its methods may be
// called from several goroutines.
type Bus struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	cfg     Config
	log     *slog.Logger
	ownConn bool

	slots   chan struct{} // one per message without an answer
	pending pendingMap
	anchors anchors

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	// publishing is held for reading around each publish, so that after Close none is registered.
	publishing sync.RWMutex
	closed     bool
	closeOnce  sync.Once
	background sync.WaitGroup
	ensure     ensureState
}

// Connect connects to a server and returns when it is connected, unless c.Lazy. The connection is
// re-established for ever; Close ends it.
func Connect(ctx context.Context, c Config) (*Bus, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(c.URL, ",") {
		if u, err := parseURL(part); err != nil || u.Host == "" {
			// The cause would repeat the URL, with its password.
			return nil, fmt.Errorf("bus: the NATS URL is not valid; use nats://host:port, %s by default", nats.DefaultURL)
		}
	}
	nc, err := nats.Connect(c.URL, append(c.connOptions(), c.Options...)...)
	if err != nil {
		return nil, fmt.Errorf("bus: connect to NATS at %s: %w", redactURL(c.URL), err)
	}
	if !c.Lazy {
		if err := awaitConnected(ctx, nc, c.ConnectTimeout); err != nil {
			nc.Close()
			return nil, fmt.Errorf("bus: connect to NATS at %s: %w", redactURL(c.URL), err)
		}
	}
	b, err := newBus(nc, c)
	if err != nil {
		nc.Close()
		return nil, err
	}
	b.ownConn = true
	return b, nil
}

// New wraps the user's connection, which stays the user's: Close leaves it open. For the guarantees to
// hold it should reconnect for ever (nats.MaxReconnects(-1)).
func New(nc *nats.Conn, c Config) (*Bus, error) {
	if nc == nil {
		return nil, errors.New("bus: the NATS connection is nil")
	}
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return newBus(nc, c)
}

func newBus(nc *nats.Conn, c Config) (*Bus, error) {
	b := &Bus{
		nc: nc, cfg: c, log: c.Logger.With("component", "bus", "prefix", c.Prefix),
		slots: make(chan struct{}, c.PublishInFlightMax),
	}
	b.pending.init()
	b.anchors.init(c.Prefix)
	js, err := jetstream.New(nc,
		jetstream.WithDefaultTimeout(requestTimeout),
		jetstream.WithPublishAsyncMaxPending(c.PublishInFlightMax),
		jetstream.WithPublishAsyncTimeout(c.PublishTimeout),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) {
			b.complete(m, nil)
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) {
			b.complete(m, err)
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("bus: %w", err)
	}
	b.js = js
	b.ctx, b.cancel = context.WithCancel(context.Background())
	status := nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	b.background.Go(func() { b.followStatus(status) })
	return b, nil
}

// Prefix returns the first token or tokens of all subjects.
func (b *Bus) Prefix() string { return b.cfg.Prefix }

// Connected reports whether there is a connection now.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// MessageBytesMax returns the largest message, headers included, that the server or the streams accept,
// as far as it is known.
func (b *Bus) MessageBytesMax() int {
	limit := int64(b.cfg.Streams.MessageBytesMax)
	if server := b.nc.MaxPayload(); server > 0 {
		limit = min(limit, server)
	}
	return int(limit)
}

// Close fails what waits for a PubAck with ErrClosed, sends what is buffered (acknowledgements), and
// closes the connection if Connect made it. End Consume calls first. Closing twice is safe.
func (b *Bus) Close() {
	b.closeOnce.Do(func() {
		b.publishing.Lock()
		b.closed = true
		b.publishing.Unlock()
		b.ensure.mu.Lock() // so that no check of the streams begins after this
		b.cancel()
		b.ensure.mu.Unlock()
		b.js.CleanupPublisher()
		b.background.Wait()
		if b.nc.IsConnected() {
			if err := b.nc.FlushTimeout(flushTimeout); err != nil {
				b.log.Warn("buffered acknowledgements may not have been sent: their messages will come again", "error", err)
			}
		}
		if b.ownConn {
			b.nc.Close()
		}
	})
}

// followStatus logs what happens to the connection and checks the streams after every reconnect: the
// server may have come back with an empty store.
func (b *Bus) followStatus(status chan nats.Status) {
	defer b.nc.RemoveStatusListener(status)
	for {
		select {
		case <-b.ctx.Done():
			return
		case s := <-status:
			switch s {
			case nats.CONNECTED:
				b.log.Info("connected to NATS", "server", redactURL(b.nc.ConnectedUrl()))
				b.ensureSoon()
			case nats.RECONNECTING:
				b.log.Warn("connection to NATS lost, reconnecting", "error", b.nc.LastError())
			case nats.CLOSED:
				b.log.Warn("connection to NATS closed", "error", b.nc.LastError())
				return
			default: // not asked for
			}
		}
	}
}

func (c Config) connOptions() []nats.Option {
	log := c.Logger.With("component", "bus", "prefix", c.Prefix)
	return []nats.Option{
		nats.Name(c.Name),
		nats.Timeout(dialTimeout), // of the handshake; the dialer has one of its own
		nats.SetCustomDialer(tcp.Config{ConnectTimeout: dialTimeout, KeepAlive: c.KeepAlive, UserTimeout: c.UserTimeout}.Dialer()),
		nats.FlusherTimeout(writeTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials may be repaired on the server
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsMax),
		nats.ReconnectBufSize(-1), // what cannot be sent now fails now: the outbox keeps it
		nats.DrainTimeout(DefaultDrainTimeout),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("NATS reports an error", "error", err, "subject", subject)
		}),
	}
}

// awaitConnected waits for a connection that is being tried in the background.
func awaitConnected(ctx context.Context, nc *nats.Conn, wait time.Duration) error {
	status := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(status)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for !nc.IsConnected() {
		why := nc.LastError()
		select {
		case <-status:
			if nc.IsClosed() {
				return errors.Join(ErrClosed, nc.LastError())
			}
		case <-timer.C:
			return fmt.Errorf("no connection after %s: %w", wait, cmpError(nc.LastError(), why, nats.ErrTimeout))
		case <-ctx.Done():
			return fmt.Errorf("%w (last error: %w)", context.Cause(ctx), cmpError(nc.LastError(), why, nats.ErrTimeout))
		}
	}
	return nil
}

func cmpError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// redactURL hides user names, passwords and tokens. A URL may be a comma-separated list, and the scheme
// may be missing.
func redactURL(list string) string {
	parts := strings.Split(list, ",")
	for i, part := range parts {
		u, err := parseURL(part)
		if err != nil {
			parts[i] = "(invalid URL)"
			continue
		}
		u.User = nil
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}

func parseURL(s string) (*url.URL, error) {
	s = strings.TrimSpace(s)
	if !strings.Contains(s, "://") {
		s = "nats://" + s
	}
	return url.Parse(s)
}
