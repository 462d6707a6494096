package participant_test

import (
	"os"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) {
	if os.Getenv(childDSN) != "" {
		os.Exit(child())
	}
	testdb.Main(m)
}
