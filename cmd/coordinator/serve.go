package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/saga/flow"
)

const defaultConnections = 24

func newServe() *cobra.Command {
	var cfg serverConfig
	var pprofListen string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a coordinator", Args: cobra.NoArgs,
		Long: "serve runs a coordinator on a migrated database. Any number may share one database and one NATS.\n" +
			"It stops in order on SIGTERM or SIGINT.\n\n" +
			"It serves those who send a token that \"coordinator token create\" made, as the tenant, client and roles that the token\n" +
			"has. The token that SAGACITY_TOKEN_FILE names is let in beside them, with all roles: to begin with, and where one is\n" +
			"enough. To listen elsewhere than on loopback it needs a certificate. With --anonymous it serves everyone on this\n" +
			"machine, for development.\n\n" +
			"Settings come from flags, else from the environment, else from the file of --config.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := readConfig(cmd); err != nil {
				return err
			}
			var err error
			if cfg.Log, err = logger(cmd, cmd.ErrOrStderr()); err != nil {
				return err
			}
			fromEnv(&cfg.DatabaseURL, "DATABASE_URL", "")
			fromEnv(&cfg.NATSURL, "NATS_URL", "nats://127.0.0.1:4222")
			if cfg.DatabaseURL == "" {
				return usageError("no database; give --database-url or set DATABASE_URL (to try it out: coordinator dev)")
			}
			fromEnv(&cfg.TLSCert, "SAGACITY_TLS_CERT", "")
			fromEnv(&cfg.TLSKey, "SAGACITY_TLS_KEY", "")
			if cfg.Token, err = readToken(cfg.TokenFile); err != nil {
				return err
			}
			if err := readFlowFlags(cmd, &cfg); err != nil {
				return err
			}
			if err := readEventFlags(&cfg); err != nil {
				return err
			}
			if pprofListen != "" {
				p, err := serveProfiles(cmd.Context(), pprofListen, cfg.Log)
				if err != nil {
					return err
				}
				defer p.close()
				fmt.Fprintf(cmd.ErrOrStderr(), "coordinator %s: profiles on http://%s/debug/pprof/\n", version, p.listener.Addr())
			}
			if err := readRetentionFlags(cmd, &cfg.Retention); err != nil {
				return err
			}
			if err := checkApprovalFlags(&cfg); err != nil {
				return err
			}
			reserveHeap()
			s, err := newServer(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "coordinator %s: API on %s\n", version, s.url())
			return s.run(cmd.Context())
		},
	}
	addServeFlags(cmd, &cfg, &pprofListen)
	return cmd
}

// addServeFlags adds all flags of serve.
func addServeFlags(cmd *cobra.Command, cfg *serverConfig, pprofListen *string) {
	addServerFlags(cmd, cfg)
	addFlowFlags(cmd, cfg)
	addEventFlags(cmd, cfg)
	addRetentionFlags(cmd, &cfg.Retention)
	addApprovalFlags(cmd, cfg)
	addConfigFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&cfg.DatabaseURL, "database-url", "", "PostgreSQL of the coordinator (DATABASE_URL)")
	f.StringVar(&cfg.TokenFile, "token-file", "", "file with a token that is let in with all roles ("+envTokenFile+"; "+envToken+" holds the token itself)")
	f.BoolVar(&cfg.Anonymous, "anonymous", false, "let in whoever is on this machine without a token, as everything: for development, on loopback only")
	f.StringVar(&cfg.TLSCert, "tls-cert", "", "file with the certificate, and those between it and the authority, in PEM; read again when it changes (SAGACITY_TLS_CERT)")
	f.StringVar(&cfg.TLSKey, "tls-key", "", "file with the certificate's private key in PEM (SAGACITY_TLS_KEY)")
	f.BoolVar(&cfg.WithoutTLS, "without-tls", false, "listen elsewhere than on loopback, unencrypted: the network is private, or a proxy ends TLS")
	f.StringVar(pprofListen, "pprof-listen", envOr("SAGACITY_PPROF_LISTEN", ""), "loopback address for Go profiles of this process (SAGACITY_PPROF_LISTEN); none if empty")
	f.StringVar(&cfg.NATSURL, "nats-url", "", "NATS with JetStream (NATS_URL; default nats://127.0.0.1:4222)")
}

func addServerFlags(cmd *cobra.Command, cfg *serverConfig) {
	cmd.Flags().StringVar(&cfg.Listen, "listen", envOr("SAGACITY_LISTEN", "127.0.0.1:8080"), "address of the HTTP API (SAGACITY_LISTEN)")
	cmd.Flags().StringVar(&cfg.Prefix, "prefix", envOr("SAGACITY_PREFIX", "saga"), "prefix of NATS subjects and streams (SAGACITY_PREFIX)")
	cmd.Flags().IntVar(&cfg.Connections, "connections", defaultConnections, "most connections to PostgreSQL")
	addAdmissionFlags(cmd, &cfg.Admission)
}

// addAdmissionFlags bounds what this coordinator takes from clients (R3).
func addAdmissionFlags(cmd *cobra.Command, p *flow.AdmissionPolicy) {
	flags := cmd.Flags()
	flags.IntVar(&p.PerSecond, "submissions-per-second", 0, "most submissions per second of all tenants together; 0: no limit")
	flags.IntVar(&p.PerTenant, "submissions-per-tenant", 0, "most submissions per second of one tenant; 0: no limit of its own")
	flags.DurationVar(&p.Burst, "submissions-burst", flow.DefaultAdmissionBurst, "how much of these rates may come at once")
	flags.IntVar(&p.BytesMax, "submission-bytes-max", flow.DefaultAdmissionBytesMax, "most bytes of submissions in memory that are not stored yet")
}
