package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/saga"
)

func (w *world) register(c *coordinator.Coordinator, def *saga.Definition) (coordinator.RegisteredDefinition, bool, error) {
	return c.RegisterDefinition(w.ctx(15*time.Second), coordinator.RegisterParams{Actor: "ann", Body: def.JSON()})
}

func (w *world) drain(c *coordinator.Coordinator, name string, version int) error {
	w.t.Helper()
	d, err := c.DrainDefinition(w.ctx(15*time.Second), coordinator.DrainParams{Actor: "ann", Name: name, Version: version, Reason: "old"})
	if err == nil && (d.State != coordinator.DefinitionDraining || d.Definition == nil) {
		w.t.Errorf("drained, and it is %+v", d)
	}
	return err
}

func (w *world) submitNamed(c *coordinator.Coordinator, name, requestID string) (coordinator.Submitted, error) {
	return c.Submit(w.ctx(20*time.Second), coordinator.SubmitParams{
		Caller: caller, RequestID: requestID, Body: fmt.Appendf(nil, `{"definition":%q,"input":{"cents":100}}`, name),
	})
}

// versionOf is a definition "order" whose versions have different numbers of steps.
func versionOf(version int) *saga.Definition {
	b := saga.Define("order").Version(version)
	for i := range version {
		b.Saga(fmt.Sprintf("s%d", i+1), "stock", "reserve", saga.Root())
	}
	return b.MustBuild()
}

func wantInvalid(t *testing.T, what string, err error, code string) {
	t.Helper()
	var invalid *saga.InvalidError
	if !errors.As(err, &invalid) || invalid.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func TestRegisterDefinition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	for i, want := range []bool{true, false, false} {
		d, created, err := w.register(c, versionOf(1))
		if err != nil || created != want || d.Name != "order" || d.Version != 1 || d.State != coordinator.DefinitionActive || d.Definition == nil || d.CreatedAt.IsZero() {
			t.Errorf("time %d: %+v, %v, %v", i, d, created, err)
		}
	}
	other := saga.Define("order").Saga("x", "stock", "reserve").MustBuild()
	if _, _, err := w.register(c, other); !errors.Is(err, coordinator.ErrDefinitionTaken) {
		t.Errorf("other content: %v", err)
	}
	if _, _, err := w.register(c, versionOf(2)); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.RegisterDefinition(w.ctx(10*time.Second), coordinator.RegisterParams{Body: []byte(`{"name":"a b","steps":[]}`)})
	wantInvalid(t, "an invalid one", err, "invalid_name")
	for _, name := range []string{"", "order"} {
		list, err := c.Definitions(w.ctx(10*time.Second), name)
		if err != nil || len(list) != 2 || list[0].Version != 2 || list[1].Version != 1 || list[0].Definition != nil {
			t.Errorf("the list of %q is %+v, %v", name, list, err)
		}
	}
	if list, err := c.Definitions(w.ctx(10*time.Second), "other"); err != nil || len(list) != 0 {
		t.Errorf("the list of another name is %+v, %v", list, err)
	}
	if _, err := c.DefinitionByName(w.ctx(10*time.Second), "order", 3); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("version 3: %v", err)
	}
	if d, err := c.DefinitionByName(w.ctx(10*time.Second), "order", 0); err != nil || d.Version != 2 || len(d.Definition.Steps) != 2 {
		t.Errorf("the newest is %+v, %v", d, err)
	}
	if err := w.drain(c, "order", 3); !errors.Is(err, coordinator.ErrNotFound) {
		t.Errorf("drain of nothing: %v", err)
	}
	for range 2 {
		if err := w.drain(c, "order", 2); err != nil {
			t.Fatal(err)
		}
	}
	if d, created, err := w.register(c, versionOf(2)); err != nil || created || d.State != coordinator.DefinitionDraining {
		t.Errorf("registering a drained one again: %+v, %v, %v", d, created, err)
	}
	if d, err := c.DefinitionByName(w.ctx(10*time.Second), "order", 0); err != nil || d.Version != 1 {
		t.Errorf("the newest active one is %+v, %v", d, err)
	}
	for query, want := range map[string]int{
		`SELECT count(*) FROM audit WHERE action = 'register_definition' AND allowed`:                                                     2,
		`SELECT count(*) FROM audit WHERE action = 'register_definition' AND NOT allowed AND object = 'order@1'`:                          1,
		`SELECT count(*) FROM audit WHERE action = 'drain_definition' AND allowed AND reason = 'old'`:                                     1,
		`SELECT count(*) FROM audit WHERE action = 'drain_definition' AND NOT allowed AND object = 'a definition that is not registered'`: 1,
		`SELECT count(*) FROM definition_names`: 2,
	} {
		if n := w.count(query); n != want {
			t.Errorf("%d, want %d: %s", n, want, query)
		}
	}
}

// Many register different content under one name and version at the same time: one wins, and what is stored is his.
func TestConcurrentRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c1, _ := w.coordinator(noTimers)
	c2, _ := w.coordinator(noTimers)
	var created, taken atomic.Int64
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			def := saga.Define("order").Saga(fmt.Sprint("s", i%3), "stock", "reserve").MustBuild()
			_, fresh, err := w.register([]*coordinator.Coordinator{c1, c2}[i%2], def)
			switch {
			case errors.Is(err, coordinator.ErrDefinitionTaken):
				taken.Add(1)
			case err != nil:
				t.Errorf("register: %v", err)
			case fresh:
				created.Add(1)
			}
		})
	}
	all.Wait()
	if created.Load() != 1 || taken.Load() != 8 {
		t.Errorf("%d were created, %d refused", created.Load(), taken.Load())
	}
}

// A submission may name a definition: the newest active version, or one version. Transactions keep what they began
// with.
func TestSubmitByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	c2, _ := w.coordinator(noTimers)
	_, err := w.submitNamed(c, "order", "")
	wantInvalid(t, "before it is registered", err, coordinator.CodeUnknownDefinition)
	for v := 1; v <= 2; v++ {
		if _, _, err := w.register(c2, versionOf(v)); err != nil {
			t.Fatal(err)
		}
	}
	first := map[string]coordinator.Submitted{}
	for name, version := range map[string]int{"order": 2, "order@1": 1, "order@2": 2} {
		s, err := w.submitNamed(c, name, "key-of-"+name)
		if err != nil {
			t.Fatal(err)
		}
		first[name] = s
		if v := w.get(c2, s.ID); v.DefinitionName != "order" || v.DefinitionVersion != version || len(v.Steps) != version {
			t.Errorf("%s began version %d with %d steps", name, v.DefinitionVersion, len(v.Steps))
		}
	}
	for name, code := range map[string]string{
		"order@3": coordinator.CodeUnknownDefinition, "other": coordinator.CodeUnknownDefinition, "order@": "invalid_version", "": "invalid_name", "a b": "invalid_name",
	} {
		_, err := w.submitNamed(c, name, "")
		wantInvalid(t, name, err, code)
	}
	if err := w.drain(c, "order", 2); err != nil {
		t.Fatal(err)
	}
	_, err = w.submitNamed(c, "order@2", "")
	wantInvalid(t, "a drained version", err, coordinator.CodeDefinitionDraining)
	if s, err := w.submitNamed(c, "order", ""); err != nil || w.get(c, s.ID).DefinitionVersion != 1 {
		t.Errorf("the newest active version: %v", err)
	}
	if err := w.drain(c, "order", 1); err != nil {
		t.Fatal(err)
	}
	_, err = w.submitNamed(c, "order", "")
	wantInvalid(t, "when all are drained", err, coordinator.CodeDefinitionDraining)
	for name, s := range first { // repetitions get their answer whatever the name means now (I2)
		if again, err := w.submitNamed(c, name, "key-of-"+name); err != nil || !again.Replayed || string(again.Answer) != string(s.Answer) {
			t.Errorf("%s again: %+v, %v", name, again, err)
		}
	}
	if _, err := w.submitNamed(c, "order@1", "key-of-order"); !errors.Is(err, coordinator.ErrKeyReused) {
		t.Errorf("other content: %v", err)
	}
	w.until("another coordinator notices", func() bool {
		_, err := w.submitNamed(c2, "order@2", "")
		var invalid *saga.InvalidError
		return errors.As(err, &invalid) && invalid.Code == coordinator.CodeDefinitionDraining
	})
	if _, _, err := w.register(c, versionOf(3)); err != nil {
		t.Fatal(err)
	}
	// what runs goes on, with what it began with
	id := first["order@2"].ID
	w.deliver(c2, done(id, "s1", saga.PhaseTry), done(id, "s2", saga.PhaseTry))
	if v := w.get(c, id); v.Status != saga.StatusCommitted || v.DefinitionVersion != 2 {
		t.Errorf("it is %s of version %d", v.Status, v.DefinitionVersion)
	}
	if s, err := w.submitNamed(c2, "order", "key-of-order"); err != nil || !s.Replayed {
		t.Errorf("a repetition when the name means something else: %v", err)
	}
	if v, err := c.FindByRequest(w.ctx(10*time.Second), caller, "key-of-order"); err != nil || v.DefinitionVersion != 2 {
		t.Errorf("found version %d, %v", v.DefinitionVersion, err)
	}
}

// A name is asked for at most once a second, however often it is used.
func TestNamesAreCached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.coordinator(noTimers)
	if _, _, err := w.register(c, versionOf(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.submitNamed(c, "order", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pool.Exec(context.Background(), `UPDATE definition_names SET state = 'draining'`); err != nil {
		t.Fatal(err)
	}
	w.until("it is noticed", func() bool {
		_, err := w.submitNamed(c, "order", "")
		return err != nil
	})
}
