package benchpeer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// AnswerLines is the other end of Lines, in a process of a benchmark: it reads commands, one JSON object a line, and
// writes what do answers to each, until the input ends. A line that is no command ends it too.
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
