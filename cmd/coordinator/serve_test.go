package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sagacity-tx/sagacity/saga/flow"
)

// The guide has every flag of serve, and the defaults of those for submissions are the rules' own (R3).
func TestServeFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	cmd := newServe()
	for _, path := range []string{"../../docs/cli.md", "../../docs/operations.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flags := regexp.MustCompile(`(?m)^ *(--[a-z-]+)`).FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1)
		if len(flags) < 10 {
			t.Fatalf("only %d flags were found", len(flags))
		}
		for _, m := range flags {
			if !strings.Contains(string(text), "`"+m[1]+"`") {
				t.Errorf("%s does not have %s", path, m[1])
			}
		}
	}
	burst, err := cmd.Flags().GetDuration("submissions-burst")
	bytes, bytesErr := cmd.Flags().GetInt("submission-bytes-max")
	if err != nil || bytesErr != nil || burst != time.Second || (flow.AdmissionPolicy{Burst: burst, BytesMax: bytes}) != (flow.AdmissionPolicy{}).WithDefaults() {
		t.Errorf("burst %s, %v; %d bytes, %v", burst, err, bytes, bytesErr)
	}
}
