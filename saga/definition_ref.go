package saga

import (
	"fmt"
	"strconv"
	"strings"
)

// DefinitionRef names a registered definition.
type DefinitionRef struct {
	Name    string
	Version int // zero: the newest that is active
}

// ParseDefinitionRef reads name or name@version, such as transfer@2. The error is an *InvalidError about field.
func ParseDefinitionRef(field, s string) (DefinitionRef, error) {
	name, version, pinned := strings.Cut(s, "@")
	if err := CheckName(field, name); err != nil {
		return DefinitionRef{}, err
	}
	if !pinned {
		return DefinitionRef{Name: name}, nil
	}
	n, err := strconv.Atoi(version)
	if err != nil || n < 1 || n > definitionVersionMax || strconv.Itoa(n) != version {
		return DefinitionRef{}, invalid("invalid_version", field, "has a version that is no number", `use a whole number from 1 behind the @, as in "transfer@2"`)
	}
	return DefinitionRef{Name: name, Version: n}, nil
}

// String returns what ParseDefinitionRef reads.
func (r DefinitionRef) String() string {
	if r.Version == 0 {
		return r.Name
	}
	return fmt.Sprintf("%s@%d", r.Name, r.Version)
}

const definitionVersionMax = 1 << 30
