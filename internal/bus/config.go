package bus

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sagacity-tx/sagacity/saga/wire"
)

// Message is a message as NATS carries it. Header converts to nats.Header.
type Message = wire.Message

// Defaults of Config.
const (
	DefaultPrefix             = "saga"
	DefaultConnectTimeout     = 5 * time.Second
	DefaultPublishInFlightMax = 4096
	DefaultPublishTimeout     = 5 * time.Second
)

// Config says how to reach NATS and what the streams look like. Every zero value has a meaning.
type Config struct {
	URL     string        // of Connect only; zero: nats://127.0.0.1:4222
	Name    string        // of the connection, for the server's operators
	Prefix  string        // of subjects and stream names; zero: DefaultPrefix
	Options []nats.Option // of Connect only, applied last: credentials, TLS

	// Lazy lets Connect return while the server cannot be reached; it goes on trying in the background.
	Lazy           bool
	ConnectTimeout time.Duration // how long Connect waits unless Lazy; zero: DefaultConnectTimeout

	KeepAlive   time.Duration // of Connect only: TCP keepalive, idle time and interval; zero: tcp.DefaultKeepAlive
	UserTimeout time.Duration // of Connect only: how long sent data may stay unacknowledged (Linux); zero: tcp.DefaultUserTimeout

	PublishInFlightMax int           // messages without an answer; zero: DefaultPublishInFlightMax
	PublishTimeout     time.Duration // for one PubAck; zero: DefaultPublishTimeout

	Manage  Manage         // what may be done to streams; zero: ManageAll
	Streams StreamSettings // zero: defaults
	Logger  *slog.Logger   // nil: slog.Default
}

// Manage says what this process may do to the streams.
type Manage int

// The choices. The owner of the streams is the coordinator; the SDK makes what is missing, so that the
// start order does not matter, and leaves settings to the owner.
const (
	ManageAll     Manage = iota // create, and update what differs
	ManageMissing               // create only
	ManageNone                  // only check that they exist
)

// Defaults of StreamSettings.
const (
	DefaultPerSubjectMax    = 100_000
	DefaultEventsMax        = 1_000_000
	DefaultCommandAgeMax    = time.Hour // the longest attempt timeout: nobody waits for an older command
	DefaultReplyAgeMax      = 24 * time.Hour
	DefaultEventAgeMax      = 7 * 24 * time.Hour
	DefaultDuplicatesWindow = 2 * time.Minute
	DefaultMessageBytesMax  = 1 << 20 // the default max_payload of NATS
)

// StreamSettings are the settings of the four streams. Limits of one subject keep a participant's or a
// tenant's full queue from evicting or blocking another's (C12). Submissions have no age limit: a service
// has deleted its outbox row when JetStream acknowledged them.
type StreamSettings struct {
	Replicas         int           // zero: 1
	PerSubjectMax    int64         // messages of one participant's or tenant's queue; zero: DefaultPerSubjectMax
	EventsMax        int64         // lifecycle events kept; zero: DefaultEventsMax
	BytesMax         int64         // of each stream; zero: no limit (a limit is reserved on the server's disk)
	CommandAgeMax    time.Duration // zero: DefaultCommandAgeMax
	ReplyAgeMax      time.Duration // zero: DefaultReplyAgeMax
	EventAgeMax      time.Duration // zero: DefaultEventAgeMax
	DuplicatesWindow time.Duration // in which Nats-Msg-Id drops copies; zero: DefaultDuplicatesWindow
	MessageBytesMax  int32         // zero: DefaultMessageBytesMax
}

func (s StreamSettings) withDefaults() StreamSettings {
	return StreamSettings{
		Replicas:         cmp.Or(s.Replicas, 1),
		PerSubjectMax:    cmp.Or(s.PerSubjectMax, DefaultPerSubjectMax),
		EventsMax:        cmp.Or(s.EventsMax, DefaultEventsMax),
		BytesMax:         cmp.Or(s.BytesMax, -1),
		CommandAgeMax:    cmp.Or(s.CommandAgeMax, DefaultCommandAgeMax),
		ReplyAgeMax:      cmp.Or(s.ReplyAgeMax, DefaultReplyAgeMax),
		EventAgeMax:      cmp.Or(s.EventAgeMax, DefaultEventAgeMax),
		DuplicatesWindow: cmp.Or(s.DuplicatesWindow, DefaultDuplicatesWindow),
		MessageBytesMax:  cmp.Or(s.MessageBytesMax, DefaultMessageBytesMax),
	}
}

func (s StreamSettings) validate() error {
	switch {
	case s.Replicas < 1 || s.Replicas > 5:
		return fmt.Errorf("bus: stream replicas is %d; use 1, 3 or 5", s.Replicas)
	case s.PerSubjectMax < 1 || s.EventsMax < 1 || s.BytesMax < -1 || s.MessageBytesMax < 1:
		return fmt.Errorf("bus: a stream limit is negative; use 0 for the default")
	case s.DuplicatesWindow < 0 || s.DuplicatesWindow > min(s.CommandAgeMax, s.ReplyAgeMax, s.EventAgeMax):
		return fmt.Errorf("bus: the duplicates window is %s; use at most the smallest age limit (%s)",
			s.DuplicatesWindow, min(s.CommandAgeMax, s.ReplyAgeMax, s.EventAgeMax))
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.URL = cmp.Or(c.URL, nats.DefaultURL)
	c.Name = cmp.Or(c.Name, "sagacity")
	c.Prefix = cmp.Or(c.Prefix, DefaultPrefix)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, DefaultConnectTimeout)
	c.PublishInFlightMax = cmp.Or(c.PublishInFlightMax, DefaultPublishInFlightMax)
	c.PublishTimeout = cmp.Or(c.PublishTimeout, DefaultPublishTimeout)
	c.Streams = c.Streams.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	if err := wire.CheckPrefix(c.Prefix); err != nil {
		return fmt.Errorf("bus: %w", err)
	}
	switch {
	case c.PublishInFlightMax < 1:
		return fmt.Errorf("bus: publish in flight max is %d; use at least 1", c.PublishInFlightMax)
	case min(c.PublishTimeout, c.ConnectTimeout, c.KeepAlive, c.UserTimeout) < 0:
		return fmt.Errorf("bus: a timeout is negative; use 0 for the default")
	case c.Manage < ManageAll || c.Manage > ManageNone:
		return fmt.Errorf("bus: manage is %d; use ManageAll, ManageMissing or ManageNone", c.Manage)
	}
	return c.Streams.validate()
}
