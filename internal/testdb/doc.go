// Package testdb gives tests a real PostgreSQL database and a real NATS server.
//
// It owns one ephemeral cluster (see internal/devcluster) per test package, started
// when the first test asks and stopped by Main, and one database per test:
//
//	func TestMain(m *testing.M) { testdb.Main(m) }
//
//	var schema = testdb.Template{Name: "orders", Migrate: migrateOrders}
//
//	func TestInsert(t *testing.T) {
//		t.Parallel()
//		pool := testdb.New(t, schema)
//		…
//	}
//
// A template is migrated once per test package; each test gets a copy, which is
// dropped when the test ends. Tests that share the NATS server put their subjects
// and stream names under Prefix.
//
// On failure the test fails with the reason: it is never skipped. A test that keeps
// a connection past its end fails too. When the test process is killed, PostgreSQL
// ends with it and the next run removes its directory.
package testdb
