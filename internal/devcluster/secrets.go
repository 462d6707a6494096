package devcluster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// secrets are the random credentials of one state directory.
type secrets struct {
	PostgresPassword string `json:"postgres_password"`
	NATSUser         string `json:"nats_user"`
	NATSPassword     string `json:"nats_password"`
}

// loadSecrets reads the credentials of a state directory, or makes them when it has
// no data directory yet: PostgreSQL knows its password from the first start on.
func loadSecrets(state, dataDir string) (secrets, error) {
	path := filepath.Join(state, "secrets.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Lstat(dataDir); err == nil {
			return secrets{}, fmt.Errorf("devcluster: %s is gone but %s exists: the password of its PostgreSQL is lost; "+
				"restore the file, or remove %s to start afresh", path, dataDir, state)
		}
		return makeSecrets(path)
	}
	if err != nil {
		return secrets{}, fmt.Errorf("devcluster: read the credentials: %w", err)
	}
	var s secrets
	if err := json.Unmarshal(raw, &s); err != nil {
		return secrets{}, fmt.Errorf("devcluster: %s is damaged: %w; restore it, or remove %s to start afresh", path, err, state)
	}
	if s.PostgresPassword == "" || s.NATSUser == "" || s.NATSPassword == "" {
		return secrets{}, fmt.Errorf("devcluster: %s lacks a credential: restore it, or remove %s to start afresh", path, state)
	}
	return s, nil
}

// makeSecrets draws credentials and writes them (0600), whole or not at all.
func makeSecrets(path string) (_ secrets, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("devcluster: write the credentials: %w", err)
		}
	}()
	s := secrets{PostgresPassword: rand.Text(), NATSUser: "sagacity", NATSPassword: rand.Text()}
	raw, err := json.Marshal(s)
	if err != nil {
		return secrets{}, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "secrets-*") // mode 0600
	if err != nil {
		return secrets{}, err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return secrets{}, errors.Join(err, os.Remove(f.Name()))
	}
	return s, nil
}
