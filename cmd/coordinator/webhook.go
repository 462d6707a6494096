package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/notify"
)

func newWebhook() *cobra.Command {
	r := &remote{}
	cmd := newGroup("webhook", "Say who is told of dead letters, pauses and the like",
		"webhook registers URLs that are told what people have to know of, through the API of a coordinator.", r)
	cmd.AddCommand(newWebhookList(r), newWebhookCreate(r), newWebhookDelete(r), newWebhookTest(r), newWebhookDeliveries(r))
	return cmd
}

func newWebhookList(r *remote) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the webhooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watchList(cmd, r, watch, func(ctx context.Context, out output) error {
				list, err := r.client.Webhooks(ctx)
				if err != nil {
					return r.explain("list webhooks", err)
				}
				return out.data(list, func(t *table) {
					t.head("ID", "KINDS", "SINCE", "BY", "URL")
					for i := range list {
						w := &list[i]
						t.row(w.ID.String(), kindsText(w.Kinds), timeText(w.CreatedAt), w.Actor, w.URL)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again when it has changed, until you stop it")
	return cmd
}

func kindsText(kinds []string) string {
	if len(kinds) == 0 {
		return "all"
	}
	return strings.Join(kinds, ",")
}

func webhookFields(t *table, w *client.Webhook) {
	t.field("Webhook", w.ID.String())
	t.field("URL", w.URL)
	t.field("Kinds", kindsText(w.Kinds))
	t.field("Since", timeText(w.CreatedAt))
	t.field("By", w.Actor)
	t.field("Secret", w.Secret)
}

func newWebhookCreate(r *remote) *cobra.Command {
	var p client.WebhookParams
	var secretFile string
	var yes bool
	var kinds []string
	for _, k := range notify.Kinds {
		kinds = append(kinds, string(k))
	}
	cmd := &cobra.Command{
		Use: "create --url URL --reason TEXT", Short: "Register a URL that is told", Args: cobra.NoArgs,
		Long: "create registers a URL that is told, and prints the secret that signs what it is told. The secret is not shown again.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.URL == "" {
				return usageError("no URL; give --url")
			}
			if err := checkReason(p.Reason); err != nil {
				return err
			}
			if secretFile != "" {
				b, err := os.ReadFile(secretFile)
				if err != nil {
					return usageError("--secret-file: %w", err)
				}
				p.Secret = strings.TrimSpace(string(b))
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Tell %s of: %s?", p.URL, kindsText(p.Kinds))); err != nil {
				return err
			}
			w, err := r.client.CreateWebhook(cmd.Context(), p)
			if err != nil {
				return r.explain("register a webhook", err)
			}
			return newOutput(cmd, r.format).data(w, func(t *table) { webhookFields(t, &w) })
		},
	}
	cmd.Flags().StringVar(&p.URL, "url", "", "https URL (required)")
	cmd.Flags().StringSliceVar(&p.Kinds, "kind", nil, "what to tell of, may be repeated: "+strings.Join(kinds, ", ")+" (default all)")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with the secret; default: one is made")
	addReason(cmd, &p.Reason, &yes)
	return cmd
}

// webhookArg reads the ID of a webhook.
func webhookArg(args []string) (uuid.UUID, error) {
	id, err := uuid.Parse(args[0])
	if err != nil || len(args[0]) != 36 {
		return id, usageError("%q is not the ID of a webhook; \"coordinator webhook list\" shows them", args[0])
	}
	return id, nil
}

func newWebhookDelete(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "delete ID --reason TEXT", Short: "Remove a webhook, and what it was not told yet", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := webhookArg(args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Remove webhook %s, and what it was not told yet?", id)); err != nil {
				return err
			}
			w, err := r.client.DeleteWebhook(cmd.Context(), id, reason)
			if err != nil {
				return r.explain("remove webhook "+id.String(), err)
			}
			return newOutput(cmd, r.format).data(w, func(t *table) { webhookFields(t, &w) })
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

func newWebhookTest(r *remote) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "test ID --reason TEXT", Short: "Tell a webhook that this is a test", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := webhookArg(args)
			if err != nil {
				return err
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			delivery, err := r.client.TestWebhook(cmd.Context(), id, reason)
			if err != nil {
				return r.explain("test webhook "+id.String(), err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "coordinator: it will be told; \"coordinator webhook deliveries %s\" shows what came of it\n", id)
			made := map[string]string{"id": delivery.String()}
			return newOutput(cmd, r.format).data(made, func(t *table) { t.field("Delivery", delivery.String()) })
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit (required)")
	return cmd
}

func newWebhookDeliveries(r *remote) *cobra.Command {
	var status string
	var limit int
	cmd := &cobra.Command{
		Use: "deliveries ID", Short: "List what a webhook was told and will be told", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := webhookArg(args)
			if err != nil {
				return err
			}
			if limit < 1 {
				return usageError("--limit is %d; use at least 1", limit)
			}
			list := []client.Delivery{}
			for d, err := range r.client.Deliveries(cmd.Context(), id, status) {
				if err != nil {
					return r.explain("list deliveries of webhook "+id.String(), err)
				}
				if list = append(list, d); len(list) == limit {
					break
				}
			}
			return newOutput(cmd, r.format).data(list, func(t *table) {
				t.head("ID", "KIND", "STATUS", "ATTEMPTS", "MADE", "PROBLEM")
				for i := range list {
					d := &list[i]
					t.row(d.ID.String(), d.Kind, d.Status, strconv.Itoa(d.Attempts), timeText(d.CreatedAt), clip(d.Problem, reasonColumns))
				}
			})
		},
	}
	choiceFlag(cmd, &status, "status", "", []string{"pending", "delivered", "failed"}, "only those")
	cmd.Flags().IntVar(&limit, "limit", 50, "most to show")
	return cmd
}
