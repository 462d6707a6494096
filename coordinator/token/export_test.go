package token

import "time"

// Age makes what is cached look older.
func (s *Store) Age(d time.Duration) {
	for _, hash := range s.cache.byHash.Keys() {
		if found, ok := s.cache.byHash.Peek(hash); ok {
			found.asked = found.asked.Add(-d)
			s.cache.byHash.Add(hash, found)
		}
	}
}

// SQL has every statement.
var SQL = map[string]string{
	"insert": sqlInsert, "find": sqlFind, "touch": sqlTouch, "list": sqlList, "revoke": sqlRevoke, "get": sqlGet,
}
