package participant_test

import (
	"testing"

	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }
