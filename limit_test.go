package sagacity_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// limitInSubquery is a LIMIT in a subquery of IN. PostgreSQL may run it once for each row of a nested loop, and then it limits
// nothing: use = ANY (ARRAY(…)) or a materialized WITH.
var limitInSubquery = regexp.MustCompile(`(?is)\bIN\s*\(\s*SELECT\b[^;` + "`" + `()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^;` + "`" + `()]*)*\bLIMIT\b`)

func TestNoLimitInASubqueryOfIn(t *testing.T) {
	if !limitInSubquery.MatchString("DELETE FROM t WHERE id IN (SELECT id FROM t WHERE a IN ('b', 'c') AND f(x) < now() ORDER BY id LIMIT $1)") {
		t.Fatal("nothing would be found")
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".sql") && (!strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go")):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := limitInSubquery.FindString(string(text)); at != "" {
			t.Errorf("%s: %s", path, at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
