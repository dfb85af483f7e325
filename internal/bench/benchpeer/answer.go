package benchpeer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// AnswerLines serves commands of Lines in a process of a benchmark: it reads commands, one JSON object per line, and
// writes the result of do for each, until the input ends. An invalid line ends it with an error.
func AnswerLines[Command, Answer any](in io.Reader, out io.Writer, do func(Command) Answer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var c Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("command %q: %w", lines.Text(), err)
		}
		if err := json.NewEncoder(out).Encode(do(c)); err != nil {
			return err
		}
	}
	return lines.Err()
}
