package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// The settings of serve come from its flags, else from the environment, else from a file, else they are defaults.

const envConfig = "SAGACITY_CONFIG"

// envRE finds the environment variable that the help of a flag names.
var envRE = regexp.MustCompile(`\(([A-Z][A-Z_]+)`)

// settingEnv returns the environment variable of a flag of serve, "" if it has none.
func settingEnv(f *pflag.Flag) string {
	if m := envRE.FindStringSubmatch(f.Usage); m != nil {
		return m[1]
	}
	return ""
}

const configBytesMax = 64 << 10

func addConfigFlag(cmd *cobra.Command) {
	cmd.Flags().String("config", "", "file with a line \"flag: value\" for each flag that is not given and not in the environment ("+envConfig+")")
}

// readConfig sets the flags that neither the command line nor the environment has from the file, and returns their names.
func readConfig(cmd *cobra.Command) (fromFile []string, err error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	fromEnv(&path, envConfig, "")
	if path == "" {
		return nil, nil
	}
	settings, err := readSettings(path)
	if err != nil {
		return nil, usageError("read the configuration: %w; check --config (%s)", err, envConfig)
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		flag := cmd.Flags().Lookup(name)
		if flag == nil || name == "config" || name == "help" {
			return nil, usageError("the configuration file %s has a setting that there is not, %q; settings are the flags of serve, without --", path, printable(name))
		}
		if flag.Changed || os.Getenv(settingEnv(flag)) != "" {
			continue
		}
		if err := cmd.Flags().Set(name, settings[name]); err != nil {
			return nil, usageError("the configuration file %s: the value of %s is not valid; see serve --help", path, name) // it may be a secret
		}
		fromFile = append(fromFile, name)
	}
	return fromFile, nil
}

func readSettings(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, configBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > configBytesMax {
		return nil, fmt.Errorf("%s has more than %d bytes", path, configBytesMax)
	}
	settings := map[string]string{}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return nil, errors.New(path + " is not lines of \"flag: value\"") // the error of the parser repeats what it has read
	}
	return settings, nil
}

// setting is one line of config print.
type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // flag, environment, file or default
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at the settings of serve"}
	cmd.AddCommand(newConfigPrint())
	return cmd
}

func newConfigPrint() *cobra.Command {
	format := formatTable
	redacted := true
	var cfg serverConfig
	var pprofListen string
	cmd := &cobra.Command{
		Use: "print", Short: "Print the settings that serve would run with, and where they come from", Args: cobra.NoArgs,
		Long: "print prints the settings that serve would run with if it were given the same flags, environment and file, and where\n" +
			"each comes from. Users and passwords in addresses are left out, unless --redacted=false says otherwise; the token never is\n" +
			"printed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := map[string]bool{}
			cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
			fromFile, err := readConfig(cmd)
			if err != nil {
				return err
			}
			list := settingsOf(cmd, given, fromFile, redacted)
			return newOutput(cmd, format).data(list, func(t *table) {
				t.head("SETTING", "VALUE", "FROM")
				for _, s := range list {
					t.row(s.Name, s.Value, s.Source)
				}
			})
		},
	}
	addServeFlags(cmd, &cfg, &pprofListen)
	cmd.Flags().BoolVar(&redacted, "redacted", true, "leave users and passwords of addresses out")
	choiceFlag(cmd, &format, "output", "o", []string{formatTable, formatJSON, formatYAML}, "how to print data")
	return cmd
}

// settingsOf lists the settings that serve has, by name.
func settingsOf(cmd *cobra.Command, given map[string]bool, fromFile []string, redacted bool) []setting {
	var list []setting
	serve := newServe()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "log-level" && serve.Flags().Lookup(f.Name) == nil {
			return
		}
		s := setting{Name: f.Name, Value: f.Value.String(), Source: "default"}
		env := os.Getenv(settingEnv(f))
		switch {
		case given[f.Name]:
			s.Source = "flag"
		case env != "":
			s.Value, s.Source = env, "environment"
		case slices.Contains(fromFile, f.Name):
			s.Source = "file"
		}
		if redacted && strings.HasSuffix(f.Name, "-url") {
			s.Value = redactURLs(s.Value)
		}
		list = append(list, s)
	})
	if os.Getenv(envToken) != "" {
		list = append(list, setting{Name: envToken, Value: "(set)", Source: "environment"})
	}
	return list
}

const hidden = "xxxxx"

// redactURLs leaves what may be secret out of addresses: user and password, and all parameters but harmless ones.
func redactURLs(text string) string {
	if text == "" {
		return ""
	}
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Opaque != "" || !slices.Contains([]string{"postgres", "postgresql", "nats", "tls", "ws", "wss"}, u.Scheme) {
			return "(hidden: not a URL of PostgreSQL or NATS)"
		}
		if u.User != nil {
			u.User = url.User(hidden)
		}
		if q := u.Query(); len(q) > 0 {
			for name := range q {
				if !slices.Contains([]string{"sslmode", "host", "port", "application_name", "connect_timeout", "target_session_attrs", "search_path"}, name) {
					q.Set(name, hidden)
				}
			}
			u.RawQuery = q.Encode()
		}
		u.Fragment = ""
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}
