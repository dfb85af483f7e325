package state

// addWant notes that a client wants a task. It tells whether that is new.
func (t *Task) addWant(c *Client) bool {
	for i := range t.wants {
		if t.wants[i].c == c {
			return false
		}
	}
	if len(t.wants) == 0 {
		t.wants = t.wants1[:0]
	}
	t.wants = append(t.wants, want{c, int32(len(c.wants))})
	c.wants = append(c.wants, wanted{t, int32(len(t.wants) - 1)})
	return true
}

// dropWant notes that a client no longer wants a task.
func (t *Task) dropWant(c *Client) bool {
	for i := range t.wants {
		if t.wants[i].c == c {
			t.dropWantAt(i)
			return true
		}
	}
	return false
}

func (t *Task) dropWantAt(i int) {
	w := t.wants[i]
	c := w.c
	last := len(c.wants) - 1
	if moved := c.wants[last]; int(w.place) != last {
		c.wants[w.place] = moved
		moved.t.wants[moved.place].place = w.place
	}
	c.wants[last] = wanted{}
	c.wants = c.wants[:last]

	last = len(t.wants) - 1
	if moved := t.wants[last]; i != last {
		t.wants[i] = moved
		moved.c.wants[moved.place].place = int32(i)
	}
	t.wants[last] = want{}
	t.wants = t.wants[:last]
}
