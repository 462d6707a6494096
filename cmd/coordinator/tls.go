package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateInterval is how often the files of the certificate are looked at, while connections are made.
const certificateInterval = 10 * time.Second

// certificate is the server's, read again when its files have changed.
type certificate struct {
	certFile, keyFile string
	interval          time.Duration
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	of      [2]stamp // of the files that current was read from
	looked  time.Time
}

// stamp tells one content of a file from another.
type stamp struct {
	at   time.Time
	size int64
}

// loadCertificate reads the pair of files, so that what is wrong with them shows before anything runs.
func loadCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, interval: certificateInterval, log: log}
	if err := c.read(); err != nil {
		return nil, usageError("read the certificate: %w; check --tls-cert and --tls-key", err)
	}
	return c, nil
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// read reads both files. If they do not fit, as in the middle of a renewal, what was read before stays.
func (c *certificate) read() error {
	of, err := c.stamps()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.current, c.of, c.looked = &pair, of, time.Now()
	return nil
}

func (c *certificate) stamps() (of [2]stamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return of, err
		}
		of[i] = stamp{at: info.ModTime(), size: info.Size()}
	}
	return of, nil
}

// get returns the certificate for a connection.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < c.interval {
		return c.current, nil
	}
	c.looked = time.Now()
	of, err := c.stamps()
	if err == nil && of != c.of {
		if err = c.read(); err == nil {
			c.log.Info("the certificate was read again", "file", c.certFile)
		}
	}
	if err != nil {
		c.log.Warn("the certificate cannot be read again; the one before stays", "error", err)
	}
	return c.current, nil
}
