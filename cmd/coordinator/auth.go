package main

import (
	"io"
	"net"
	"os"
	"strings"

	"github.com/sagacity-tx/sagacity/coordinator/api"
	"github.com/sagacity-tx/sagacity/coordinator/token"
)

// Where the token comes from. Arguments are visible to everyone on a machine, so a flag may name its file only.
const (
	envTokenFile = "SAGACITY_TOKEN_FILE"
	envToken     = "SAGACITY_TOKEN"
)

// readToken returns the token from the file if one is given or named in the environment, else from the environment;
// "" if there is none.
func readToken(file string) (string, error) {
	fromEnv(&file, envTokenFile, "")
	if file == "" {
		return strings.TrimSpace(os.Getenv(envToken)), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", usageError("read the token: %w; check --token-file (%s)", err, envTokenFile)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, api.TokenBytesMax+2)) // a token that is too long stays too long
	if err != nil {
		return "", usageError("read the token: %w; check --token-file (%s)", err, envTokenFile)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", usageError("the token file %s is empty; check --token-file (%s)", file, envTokenFile)
	}
	return token, nil
}

// authenticator lets in whoever has a token of the database or the configured one, and with Anonymous whoever is on this
// machine and sends none.
func authenticator(cfg *serverConfig, tokens api.Tokens) (api.Authenticator, error) {
	known := api.Bearer(tokens)
	if cfg.Token != "" {
		configured, err := api.ConfiguredToken(cfg.Token, api.Identity{
			Tenant: "default", Client: "cluster", Actor: "cluster", Roles: token.AllRoles, AllTenants: true,
		})
		if err != nil {
			return nil, usageError("%w (%s, %s)", err, envTokenFile, envToken)
		}
		known = api.Either(configured, known)
	}
	if cfg.Anonymous {
		known = api.WithoutCredential(api.Loopback(), known)
	}
	return known, nil
}

// checkListen makes sure that others reach the address only with a token, and that someone has thought of the
// token's way through the network.
func checkListen(cfg *serverConfig) error {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return usageError("--listen is %q: %w; give host:port, for example 127.0.0.1:8080", cfg.Listen, err)
	}
	if (cfg.TLSCert == "") != (cfg.TLSKey == "") {
		return usageError("--tls-cert and --tls-key belong together; give both")
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	var missing []string
	if cfg.Anonymous {
		missing = append(missing, "authentication: leave --anonymous out, which is for this machine only, and make tokens with \"coordinator token create\"")
	}
	if cfg.TLSCert == "" && !cfg.WithoutTLS {
		missing = append(missing, "TLS: give --tls-cert and --tls-key, or --without-tls to say that the network is private, or that a proxy in front ends TLS")
	}
	if len(missing) > 0 {
		return usageError("--listen is %q, which others can reach; without more the API is on loopback only, as on 127.0.0.1. It needs %s",
			cfg.Listen, strings.Join(missing, "; and "))
	}
	return nil
}

// adviceToken is said when the coordinator wants a token, or another one.
const adviceToken = "give --token-file or set " + envTokenFile + ", a file that holds your token, or set " + envToken + " to the token; " +
	"\"coordinator token create\" makes one"
