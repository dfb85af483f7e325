package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/proc/cmdline"
)

// maxMigrate bounds the size of a file to read; package config rejects smaller ones.
const maxMigrate = 64 << 20

func configMigrateCommand() *cobra.Command {
	var write, env bool
	cmd := &cobra.Command{
		Use:   "migrate FILE... | --env",
		Short: "Rewrite a file or the environment with the newest spellings",
		Long: `Print FILE with the newest spelling of every key: sections ucx, rmm, distributed.comm.ucx and
distributed.rmm become distributed-ucxx, and keys that Dask has renamed get their new names. Comments and
order are kept. Changes are listed on standard error. FILE - is standard input.

--write changes the file in place and keeps the original as FILE.bak. --env prints shell commands that
rename the DASK_* variables of this environment.`,
		Example: `  millstream config migrate ~/.config/dask/ucx.yaml
  millstream config migrate ~/.config/dask/ucx.yaml --write
  eval "$(millstream config migrate --env)"`,
		RunE: func(cmd *cobra.Command, files []string) error {
			switch {
			case env && (len(files) > 0 || write):
				return cmdline.Usagef("--env takes neither files nor --write")
			case env:
				return migrateEnv(cmd.OutOrStdout(), os.Environ())
			case len(files) == 0:
				return cmdline.Usagef("pass a file or --env")
			case len(files) > 1 && !write:
				return cmdline.Usagef("only one file can be printed; use --write for several files")
			}
			for _, f := range files {
				if err := migrateFile(cmd, f, write); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "change of the file in place; the original is kept as FILE.bak")
	cmd.Flags().BoolVar(&env, "env", false, "shell commands for the variables of the environment")
	return cmd
}

func migrateFile(cmd *cobra.Command, name string, write bool) error {
	text, err := readAll(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	migrated, changes, err := config.Migrate(name, text)
	if err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", name, c)
	}
	if !write {
		_, err := cmd.OutOrStdout().Write(migrated)
		return err
	}
	if name == "-" {
		return cmdline.Usagef("--write needs a file")
	}
	if len(changes) == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: nothing to change\n", name)
		return nil
	}
	return replaceFile(name, migrated)
}

func readAll(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, maxMigrate))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxMigrate))
}

// replaceFile writes a new file and renames it, so that readers never see a partial file. It follows symbolic links.
func replaceFile(name string, text []byte) error {
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename below
	_, err = tmp.Write(text)
	if cerr := tmp.Chmod(info.Mode().Perm()); err == nil {
		err = cerr
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(path, path+".bak"); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// shellName matches names that need no quotes in a shell.
var shellName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// migrateEnv prints commands for a POSIX shell. Variables with the newest spelling are kept.
func migrateEnv(w io.Writer, env []string) error {
	set := map[string]bool{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		set[name] = true
	}
	for _, c := range config.MigrateEnv(env) {
		switch {
		case !shellName.MatchString(c.Old + c.New):
			fmt.Fprintf(w, "# %q is not a valid name of a shell variable\n", c.Old)
		case c.New == "":
			fmt.Fprintf(w, "unset %s  # %s\n", c.Old, c.Why)
		case set[c.New]:
			fmt.Fprintf(w, "unset %s  # %s is also set and takes precedence\n", c.Old, c.New)
		default:
			fmt.Fprintf(w, "export %s=\"$%s\"; unset %s\n", c.New, c.Old, c.Old)
			set[c.New] = true
		}
	}
	return nil
}
