package coordinatortest_test

import (
	"context"
	"testing"

	"github.com/sagacity-tx/sagacity/internal/schema"
	"github.com/sagacity-tx/sagacity/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

var migrated = testdb.Template{Name: "coordinator", Migrate: func(ctx context.Context, dsn string) error {
	_, err := schema.Up(ctx, dsn)
	return err
}}
