package api_test

import (
	"cmp"
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"

	"github.com/sagacity-tx/sagacity/coordinator"
	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/dlq"
	"github.com/sagacity-tx/sagacity/notify"
	"github.com/sagacity-tx/sagacity/saga"
)

// fake is a coordinator whose every call does the same.
type fake struct {
	submit func(context.Context, coordinator.SubmitParams) (coordinator.Submitted, error)
	wait   func(context.Context) (coordinator.View, error)
	err    error
}

func (f *fake) Submit(ctx context.Context, p coordinator.SubmitParams) (coordinator.Submitted, error) {
	if f.submit != nil {
		return f.submit(ctx, p)
	}
	if f.err != nil {
		return coordinator.Submitted{}, f.err
	}
	return coordinator.Submitted{ID: fakeID, Answer: []byte(`{"id":"` + fakeID.String() + `"}`)}, nil
}

func (f *fake) SubmitAndWait(ctx, waitCtx context.Context, p coordinator.SubmitParams) (coordinator.Submitted, coordinator.View, error) {
	s, err := f.Submit(ctx, p)
	if err != nil {
		return s, coordinator.View{}, err
	}
	v, err := f.Wait(waitCtx, p.Caller, s.ID)
	return s, v, err
}

func (f *fake) Get(context.Context, coordinator.Caller, saga.ID) (coordinator.View, error) {
	return coordinator.View{ID: fakeID, Status: saga.StatusRunning}, f.err
}

func (f *fake) Wait(ctx context.Context, _ coordinator.Caller, _ saga.ID) (coordinator.View, error) {
	if f.wait != nil {
		return f.wait(ctx)
	}
	return coordinator.View{ID: fakeID, Status: saga.StatusRunning}, f.err
}

func (f *fake) FindByRequest(context.Context, coordinator.Caller, string) (coordinator.View, error) {
	return coordinator.View{}, f.err
}

func (f *fake) List(context.Context, coordinator.Caller, coordinator.Filter) ([]coordinator.View, error) {
	return nil, f.err
}

func (f *fake) Attempts(context.Context, coordinator.Caller, saga.ID) ([]saga.AttemptEnd, error) {
	return nil, f.err
}

func (f *fake) Explain(context.Context, coordinator.Caller, saga.ID) (coordinator.Explained, error) {
	return coordinator.Explained{}, f.err
}

func (f *fake) Watch(coordinator.Caller, saga.ID) coordinator.Watcher { return f }

func (f *fake) Next(ctx context.Context) (coordinator.View, error) {
	return coordinator.View{ID: fakeID, Version: 1, Status: saga.StatusCommitted}, cmp.Or(f.err, ctx.Err())
}

func (f *fake) Close() {}

func (f *fake) Cancel(context.Context, coordinator.Caller, saga.ID, string) (coordinator.View, error) {
	return coordinator.View{}, f.err
}

func (f *fake) Definitions(context.Context, string) ([]coordinator.RegisteredDefinition, error) {
	return nil, f.err
}

func (f *fake) DefinitionByName(context.Context, string, int) (coordinator.RegisteredDefinition, error) {
	return coordinator.RegisteredDefinition{}, f.err
}

func (f *fake) RegisterDefinition(context.Context, coordinator.RegisterParams) (coordinator.RegisteredDefinition, bool, error) {
	return coordinator.RegisteredDefinition{}, false, f.err
}

func (f *fake) DrainDefinition(context.Context, coordinator.DrainParams) (coordinator.RegisteredDefinition, error) {
	return coordinator.RegisteredDefinition{}, f.err
}

func (f *fake) DeadLetters(context.Context, dlq.Filter) ([]dlq.DeadLetter, error) { return nil, f.err }

func (f *fake) DeadLetter(context.Context, uuid.UUID) (coordinator.DeadLetterDetail, error) {
	return coordinator.DeadLetterDetail{}, f.err
}

func (f *fake) Replay(context.Context, coordinator.LetterParams) error { return f.err }

func (f *fake) Discard(context.Context, coordinator.LetterParams) (*coordinator.View, error) {
	return nil, f.err
}

func (f *fake) Resolve(context.Context, coordinator.ResolveParams) (coordinator.View, error) {
	return coordinator.View{}, f.err
}

func (f *fake) Edit(context.Context, coordinator.EditParams) error { return f.err }

func (f *fake) Approve(context.Context, coordinator.ApproveParams) (dlq.Approval, error) {
	return dlq.Approval{}, f.err
}

func (f *fake) Approvals(context.Context, dlq.ApprovalFilter) ([]dlq.Approval, error) {
	return nil, f.err
}

func (f *fake) RevokeApproval(context.Context, coordinator.RevokeParams) (dlq.Approval, error) {
	return dlq.Approval{}, f.err
}

func (f *fake) Pause(context.Context, coordinator.PauseParams) (coordinator.Paused, bool, error) {
	return coordinator.Paused{}, false, f.err
}

func (f *fake) Resume(context.Context, coordinator.ResumeParams) (coordinator.Paused, error) {
	return coordinator.Paused{}, f.err
}

func (f *fake) Pauses(context.Context) ([]coordinator.Paused, error) { return nil, f.err }

func (f *fake) Groups(context.Context, dlq.GroupFilter) ([]dlq.Group, error) { return nil, f.err }

func (f *fake) Group(context.Context, string, string) (coordinator.GroupDetail, error) {
	return coordinator.GroupDetail{}, f.err
}

func (f *fake) NoteGroup(context.Context, coordinator.GroupParams) (dlq.Note, error) {
	return dlq.Note{}, f.err
}

func (f *fake) InquireGroup(context.Context, coordinator.GroupParams) error { return f.err }

func (f *fake) Inquire(context.Context, coordinator.InquireParams) error { return f.err }

func (f *fake) Audit(context.Context, dlq.AuditFilter) ([]dlq.AuditEntry, error) { return nil, f.err }

func (f *fake) CreateJob(context.Context, dlq.JobParams) (coordinator.JobDetail, error) {
	return coordinator.JobDetail{}, f.err
}

func (f *fake) CommandJob(context.Context, coordinator.JobParams) (coordinator.JobDetail, error) {
	return coordinator.JobDetail{}, f.err
}

func (f *fake) Job(context.Context, uuid.UUID, string) (coordinator.JobDetail, error) {
	return coordinator.JobDetail{}, f.err
}

func (f *fake) Jobs(context.Context, dlq.JobFilter) ([]dlq.Job, error) { return nil, f.err }

func (f *fake) JobItems(context.Context, uuid.UUID, string, dlq.JobItemFilter) ([]dlq.JobItem, error) {
	return nil, f.err
}

func (f *fake) Participants(context.Context) (coordinator.ParticipantStates, error) {
	return coordinator.ParticipantStates{}, f.err
}

var fakeID = func() saga.ID {
	id, err := saga.ParseID("0198c7a2-5b7e-7c31-9f6e-0a4b1c2d3e4f")
	if err != nil {
		panic(err)
	}
	return id
}()

func serveFake(t *testing.T, f *fake, options ...func(*api.Config)) *httptest.Server {
	t.Helper()
	cfg := api.Config{Coordinator: f, Admin: f, Desk: f, Authenticate: api.Loopback(), Log: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&cfg)
	}
	return serve(t, api.New(cfg))
}

func (f *fake) CreateWebhook(context.Context, coordinator.WebhookParams) (notify.Webhook, string, error) {
	return notify.Webhook{}, "", f.err
}

func (f *fake) Webhooks(context.Context) ([]notify.Webhook, error) { return nil, f.err }

func (f *fake) DeleteWebhook(context.Context, coordinator.WebhookAction) (notify.Webhook, error) {
	return notify.Webhook{}, f.err
}

func (f *fake) TestWebhook(context.Context, coordinator.WebhookAction) (uuid.UUID, error) {
	return uuid.Nil, f.err
}

func (f *fake) Deliveries(context.Context, notify.DeliveryFilter) ([]notify.Delivery, error) {
	return nil, f.err
}
