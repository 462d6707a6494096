package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/sagacity-tx/sagacity/coordinator/api"
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
		return "", usageError("read the token: %w; check %s", err, envTokenFile)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, api.TokenBytesMax+2)) // a token that is too long stays too long
	if err != nil {
		return "", usageError("read the token: %w; check %s", err, envTokenFile)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", usageError("the token file %s is empty; check %s", file, envTokenFile)
	}
	return token, nil
}

// authenticator lets in whoever has the token, or without one whoever is on this machine.
func authenticator(token string) (api.Authenticator, error) {
	if token == "" {
		return api.Loopback(), nil
	}
	auth, err := api.Token(token, api.Identity{Tenant: "default", Client: "cluster", Actor: "cluster", Operator: true})
	if err != nil {
		return nil, usageError("%w (%s, %s)", err, envTokenFile, envToken)
	}
	return auth, nil
}

// checkListen makes sure that others reach the address only with a token, and that someone has thought of the
// token's way through the network.
func checkListen(cfg serverConfig) error {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return usageError("--listen is %q: %w; give host:port, for example 127.0.0.1:8080", cfg.Listen, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	var missing []string
	if cfg.Token == "" {
		missing = append(missing, fmt.Sprintf("a token: set %s or --token-file to a file that holds at least %d characters, as of \"openssl rand -hex 32\"",
			envTokenFile, api.TokenBytesMin))
	}
	if !cfg.WithoutTLS {
		missing = append(missing, "--without-tls: this version has no TLS, so say that the network is private, or that a proxy in front ends TLS")
	}
	if len(missing) > 0 {
		return usageError("--listen is %q, which others can reach; without more the API is on loopback only, as on 127.0.0.1. It needs %s",
			cfg.Listen, strings.Join(missing, "; and "))
	}
	return nil
}

// adviceToken is said when the coordinator wants a token, or another one.
const adviceToken = "set " + envTokenFile + " to a file that holds the coordinator's token, or " + envToken + " to the token"
