package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream is one of the four streams of a prefix.
type Stream string

// The streams.
const (
	Commands    Stream = "cmd"    // coordinator → participant
	Replies     Stream = "reply"  // participant → coordinator
	Submissions Stream = "submit" // a service's outbox → coordinator
	Events      Stream = "event"  // lifecycle events, for anyone
)

var allStreams = []Stream{Commands, Replies, Submissions, Events}

// StreamName returns the name that the server knows the stream by: SAGA_CMD.
func (b *Bus) StreamName(s Stream) string {
	prefix := strings.NewReplacer(".", "_").Replace(b.cfg.Prefix)
	return strings.ToUpper(prefix + "_" + string(s))
}

// streamConfig returns the whole configuration of a stream.
func (b *Bus) streamConfig(s Stream) jetstream.StreamConfig {
	set := b.cfg.Streams
	c := jetstream.StreamConfig{
		Name:                 b.StreamName(s),
		Subjects:             []string{b.cfg.Prefix + "." + string(s) + ".*"},
		Storage:              jetstream.FileStorage,
		Replicas:             set.Replicas,
		Retention:            jetstream.WorkQueuePolicy,
		Discard:              jetstream.DiscardNew, // a full queue refuses, it never evicts
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    set.PerSubjectMax,
		MaxMsgs:              -1,
		MaxBytes:             set.BytesMax,
		MaxMsgSize:           set.MessageBytesMax,
		MaxConsumers:         -1,
		Duplicates:           set.DuplicatesWindow,
		AllowMsgTTL:          true,
	}
	switch s {
	case Commands:
		c.Description = "commands to participants"
		c.MaxAge = set.CommandAgeMax
	case Replies:
		c.Description = "replies of participants"
		c.Subjects = []string{b.cfg.Prefix + ".reply.*.*"}
		c.MaxAge = set.ReplyAgeMax
	case Submissions:
		c.Description = "transactions that services submit"
	case Events:
		c.Description = "lifecycle events of transactions"
		c.Subjects = []string{b.cfg.Prefix + ".event.*.*"}
		c.Retention = jetstream.LimitsPolicy
		c.Discard, c.DiscardNewPerSubject, c.MaxMsgsPerSubject = jetstream.DiscardOld, false, -1
		c.MaxMsgs = set.EventsMax
		c.MaxAge = set.EventAgeMax
	}
	return c
}

// EnsureStreams checks the four streams: creates what is missing and updates what differs, as far as
// Config.Manage allows. A *SettingError says what a person has to change; other errors may be gone at
// the next try.
func (b *Bus) EnsureStreams(ctx context.Context) error {
	for _, s := range allStreams {
		if err := b.ensureStream(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bus) ensureStream(ctx context.Context, s Stream) error {
	want := b.streamConfig(s)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return b.createStream(ctx, want)
	}
	if err != nil && b.nc.IsClosed() {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if err != nil {
		return fmt.Errorf("bus: look up stream %s: %w", want.Name, err)
	}
	have := stream.CachedInfo().Config
	if err := b.checkSubjects(have); err != nil {
		return err
	}
	merged, differs := mergeConfig(have, want)
	if !differs || b.cfg.Manage != ManageAll {
		return nil
	}
	if err := checkFixed(have, want); err != nil {
		return err
	}
	if _, err := b.js.UpdateStream(ctx, merged); err != nil {
		return settingError("stream "+want.Name, err)
	}
	b.log.Info("stream updated", "stream", want.Name)
	return nil
}

func (b *Bus) createStream(ctx context.Context, want jetstream.StreamConfig) error {
	if b.cfg.Manage == ManageNone {
		return fmt.Errorf("bus: stream %s does not exist; start its owner, the coordinator, or create it: %w",
			want.Name, jetstream.ErrStreamNotFound)
	}
	// Another process that creates it at the same time is no error: it is the same stream.
	_, err := b.js.CreateStream(ctx, want)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return settingError("stream "+want.Name, err)
	}
	if err == nil {
		b.log.Info("stream created", "stream", want.Name)
	}
	return nil
}

// checkSubjects refuses a stream that another prefix uses: "a.b" and "a_b" lead to the same name.
func (b *Bus) checkSubjects(have jetstream.StreamConfig) error {
	for _, subject := range have.Subjects {
		if !strings.HasPrefix(subject, b.cfg.Prefix+".") {
			return &SettingError{
				Object: "stream " + have.Name, Setting: "subjects", Have: strings.Join(have.Subjects, " "),
				Want: b.cfg.Prefix + ".…", Fix: "another application uses this name: choose another prefix",
			}
		}
	}
	return nil
}

// mergeConfig lays the settings that this package owns over those on the server, so that others
// (placement, metadata, mirrors) stay as operators set them.
func mergeConfig(have, want jetstream.StreamConfig) (merged jetstream.StreamConfig, differs bool) {
	merged = have
	lay(&merged.Description, want.Description, &differs)
	lay(&merged.Retention, want.Retention, &differs)
	lay(&merged.Storage, want.Storage, &differs)
	lay(&merged.Replicas, want.Replicas, &differs)
	lay(&merged.Discard, want.Discard, &differs)
	lay(&merged.DiscardNewPerSubject, want.DiscardNewPerSubject, &differs)
	lay(&merged.MaxMsgsPerSubject, want.MaxMsgsPerSubject, &differs)
	lay(&merged.MaxMsgs, want.MaxMsgs, &differs)
	lay(&merged.MaxBytes, want.MaxBytes, &differs)
	lay(&merged.MaxAge, want.MaxAge, &differs)
	lay(&merged.MaxMsgSize, want.MaxMsgSize, &differs)
	lay(&merged.MaxConsumers, want.MaxConsumers, &differs)
	lay(&merged.Duplicates, want.Duplicates, &differs)
	lay(&merged.AllowMsgTTL, want.AllowMsgTTL, &differs)
	lay(&merged.NoAck, want.NoAck, &differs)
	if !slices.Equal(have.Subjects, want.Subjects) {
		merged.Subjects, differs = want.Subjects, true
	}
	return merged, differs
}

func lay[T comparable](field *T, value T, differs *bool) {
	if *field != value {
		*field, *differs = value, true
	}
}

// checkFixed names the settings that the server does not change in place.
func checkFixed(have, want jetstream.StreamConfig) error {
	fixed := func(setting string, is, should any) error {
		return &SettingError{
			Object: "stream " + want.Name, Setting: setting, Have: fmt.Sprint(is), Want: fmt.Sprint(should),
			Fix: "the server cannot change it in place: let the stream run empty and delete it; it is made again",
		}
	}
	switch {
	case have.Storage != want.Storage:
		return fixed("storage", have.Storage, want.Storage)
	case have.Retention != want.Retention:
		return fixed("retention", have.Retention, want.Retention)
	case have.Sealed:
		return fixed("sealed", true, false)
	case have.Mirror != nil:
		return fixed("mirror", have.Mirror.Name, "none")
	}
	return nil
}

// settingError tells a refusal of our settings from a server that cannot answer now.
func settingError(object string, err error) error {
	var ae *jetstream.APIError
	if !errors.As(err, &ae) || ae.Code != statusBadRequest {
		return fmt.Errorf("bus: %s: %w", object, err)
	}
	fix := "change the setting that the server names"
	switch ae.ErrorCode {
	case codeSubjectOverlap:
		fix = "another stream takes the same subjects: choose another prefix or delete that stream"
	case codeWorkQueueNotUnique, codeWorkQueueNotFiltered, codeOverlappingFilters, codeDuplicateFilters:
		fix = "another consumer takes the same subjects: delete the one that is no longer used"
	default: // the server's text says it
	}
	return &SettingError{Object: object, Fix: fix, Err: err}
}

// ensureState keeps one check of the streams in the background at a time.
type ensureState struct {
	mu      sync.Mutex
	running bool
	last    time.Time
}

// ensureSoon checks the streams in the background, at most once per ensureEveryTime.
func (b *Bus) ensureSoon() {
	e := &b.ensure
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running || b.ctx.Err() != nil || b.cfg.Manage == ManageNone {
		return
	}
	e.running = true
	wait := max(0, ensureEveryTime-time.Since(e.last))
	b.background.Go(func() {
		defer func() {
			e.mu.Lock()
			e.running, e.last = false, time.Now()
			e.mu.Unlock()
		}()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.ctx.Done():
			return
		}
		if err := b.EnsureStreams(b.ctx); err != nil && b.ctx.Err() == nil {
			b.log.Warn("the streams could not be checked, will try again", "error", err)
		}
	})
}
