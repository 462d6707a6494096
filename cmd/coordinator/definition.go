package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/saga"
)

func newDefinition() *cobra.Command {
	r := &remote{}
	cmd := newGroup("definition", "Register definitions, so that submissions may name them",
		"definition registers definitions by name and version, so that submissions may name them instead of bringing them,\n"+
			"through the API of a coordinator.", r)
	cmd.AddCommand(newDefinitionRegister(r), newDefinitionList(r), newDefinitionShow(r), newDefinitionDrain(r))
	return cmd
}

// definitionArg reads the one argument that is NAME or NAME@VERSION.
func definitionArg(cmd *cobra.Command, args []string) (saga.DefinitionRef, error) {
	if len(args) != 1 {
		return saga.DefinitionRef{}, usageError("%s needs the name of one definition; \"coordinator definition list\" shows them", cmd.CommandPath())
	}
	ref, err := saga.ParseDefinitionRef(strconv.Quote(args[0]), args[0])
	if err != nil {
		return ref, usageError("%w", err)
	}
	return ref, nil
}

func newDefinitionRegister(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "register FILE", Short: "Register a definition by its name and version",
		Long: "register reads the JSON of a definition from FILE, or from standard input if it is -, and registers it. The same\n" +
			"content twice changes nothing; other content under the same name and version is refused.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError("%s needs the file of one definition, or - for standard input", cmd.CommandPath())
			}
			body, err := readDefinition(cmd, args[0])
			if err != nil {
				return err
			}
			d, err := r.client.RegisterDefinition(cmd.Context(), body)
			if err != nil {
				return r.explain("register the definition of "+args[0], err)
			}
			return showDefinition(newOutput(cmd, r.format), &d)
		},
	}
}

func readDefinition(cmd *cobra.Command, file string) ([]byte, error) {
	in := cmd.InOrStdin()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the definition: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	body, err := io.ReadAll(io.LimitReader(in, saga.SubmissionBytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the definition from %s: %w", file, err)
	case len(body) > saga.SubmissionBytesMax:
		return nil, fmt.Errorf("the definition in %s has more than %d bytes", file, saga.SubmissionBytesMax)
	case len(body) == 0:
		return nil, fmt.Errorf("the definition in %s is empty", file)
	}
	return body, nil
}

func newDefinitionList(r *remote) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "list", Short: "List the registered definitions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name != "" && saga.CheckName("name", name) != nil {
				return usageError("--name is %q; definitions have names of letters, digits, '-' and '_'", name)
			}
			list, err := r.client.Definitions(cmd.Context(), name)
			if err != nil {
				return r.explain("list definitions", err)
			}
			return newOutput(cmd, r.format).data(list, func(t *table) {
				t.head("NAME", "VERSION", "STATE", "REGISTERED")
				for i := range list {
					t.row(list[i].Name, strconv.Itoa(list[i].Version), list[i].State, timeText(list[i].CreatedAt))
				}
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "only the versions of this name")
	return cmd
}

func newDefinitionShow(r *remote) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@VERSION]", Short: "Show a registered definition",
		Long: "show shows a version of a registered definition; without a version the newest that is active, which is the one\n" +
			"that submissions get.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := definitionArg(cmd, args)
			if err != nil {
				return err
			}
			if ref.Version == 0 {
				if ref.Version, err = r.newestVersion(cmd, ref.Name); err != nil {
					return err
				}
			}
			d, err := r.client.Definition(cmd.Context(), ref.Name, ref.Version)
			if err != nil {
				return r.explain("read definition "+ref.String(), err)
			}
			return showDefinition(newOutput(cmd, r.format), &d)
		},
	}
}

// newestVersion returns the newest active version of a definition, or the newest if none is active.
func (r *remote) newestVersion(cmd *cobra.Command, name string) (int, error) {
	list, err := r.client.Definitions(cmd.Context(), name)
	switch {
	case err != nil:
		return 0, r.explain("read the versions of definition "+name, err)
	case len(list) == 0:
		return 0, fmt.Errorf("no definition %s is registered; \"coordinator definition list\" shows those that are", name)
	}
	for i := range list {
		if list[i].State == "active" {
			return list[i].Version, nil
		}
	}
	return list[0].Version, nil
}

func newDefinitionDrain(r *remote) *cobra.Command {
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "drain NAME@VERSION --reason TEXT", Short: "Refuse new transactions of a registered definition",
		Long: "drain refuses new transactions of one version of a registered definition. Those that run go on with it. It cannot\n" +
			"be taken back: register the next version instead.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := definitionArg(cmd, args)
			if err != nil {
				return err
			}
			if ref.Version == 0 {
				return usageError("which version of %s? Give NAME@VERSION; \"coordinator definition list --name %s\" shows them", ref.Name, ref.Name)
			}
			if err := checkReason(reason); err != nil {
				return err
			}
			if err := confirm(cmd, yes, fmt.Sprintf("Refuse new transactions of %s from now on? Those that run go on.", ref)); err != nil {
				return err
			}
			d, err := r.client.DrainDefinition(cmd.Context(), ref.Name, ref.Version, reason)
			if err != nil {
				return r.explain("drain definition "+ref.String(), err)
			}
			return showDefinition(newOutput(cmd, r.format), &d)
		},
	}
	addReason(cmd, &reason, &yes)
	return cmd
}

func showDefinition(out output, d *client.Definition) error {
	return out.data(d, func(t *table) {
		t.field("Name", d.Name)
		t.field("Version", strconv.Itoa(d.Version))
		t.field("State", d.State)
		t.field("Registered", timeText(d.CreatedAt))
		t.field("SHA-256", d.SHA256)
		t.field("Definition", string(d.Definition))
	})
}
