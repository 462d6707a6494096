package devcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// identity is the user that PostgreSQL runs as. nil is the user of this process.
type identity struct {
	uid, gid uint32
}

// childIdentity returns nil for an ordinary user. PostgreSQL refuses to run as
// root: root gets the user postgres, else nobody.
func childIdentity() (*identity, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if runtime.GOOS != "linux" {
		return nil, errors.New("devcluster: PostgreSQL does not run as root: run as an ordinary user")
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &identity{uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("devcluster: PostgreSQL does not run as root and there is no user postgres or nobody: " +
		"add one (useradd --system postgres) or run as an ordinary user")
}

// ownerOf returns the owner of an existing data directory, so that it opens also
// when the user that childIdentity chooses has changed since; else i itself.
func (i *identity) ownerOf(dataDir string) (*identity, error) {
	if i == nil {
		return nil, nil
	}
	info, err := os.Lstat(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err != nil {
		return nil, fmt.Errorf("devcluster: data directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || st.Uid == 0 {
		return nil, fmt.Errorf("devcluster: data directory %s belongs to root, PostgreSQL does not run as root: "+
			"run chown -R to an ordinary user, or remove it", dataDir)
	}
	return &identity{uid: st.Uid, gid: st.Gid}, nil
}

// chown gives a file or directory to the identity.
func (i *identity) chown(path string) error {
	if i == nil {
		return nil
	}
	return os.Lchown(path, int(i.uid), int(i.gid))
}

// credential returns what a child process needs to run as the identity.
func (i *identity) credential() *syscall.Credential {
	if i == nil {
		return nil
	}
	return &syscall.Credential{Uid: i.uid, Gid: i.gid}
}

// ownerUID returns the user id that owns a file.
func ownerUID(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
