package saga_test

import (
	"errors"
	"testing"

	"github.com/sagacity-tx/sagacity/saga"
)

func TestDefinitionRef(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]saga.DefinitionRef{
		"transfer": {Name: "transfer"}, "transfer@2": {Name: "transfer", Version: 2}, "a-b_C9@1073741824": {Name: "a-b_C9", Version: 1 << 30},
	} {
		if got, err := saga.ParseDefinitionRef("definition", text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "@", "@1", "a@", "a@0", "a@-1", "a@+1", "a@01", "a@1.0", "a@1 ", " a", "a@1@2", "a@1073741825", "a@99999999999999999999", "a@latest", "ä"} {
		var invalid *saga.InvalidError
		if got, err := saga.ParseDefinitionRef("definition", text); !errors.As(err, &invalid) || invalid.Field != "definition" {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
