package message

import "go.millstream.dev/internal/wire/msgpack"

// Part is an action of a task: compute, transfer, disk-read, disk-write, deserialize.
type Part struct {
	Action string
	// Start and Stop are in seconds since 1970.
	Start, Stop float64
}

// StartStops are the actions of a run of a task.
type StartStops struct {
	// Raw is the encoded list of all actions: maps of action, start, stop. Read sets it.
	Raw Raw
	// Start and Stop are the times of the computation, in seconds since 1970; both 0 if there was none. Read sets
	// them.
	Start, Stop float64
	// Parts are the actions that Append writes.
	Parts []Part
}

// read reads the list and finds the computation in it.
func (s *StartStops) read(r *msgpack.Reader) error {
	*s = StartStops{}
	if r.Kind() != msgpack.Array {
		var err error
		s.Raw, err = r.ReadRaw()
		return err
	}
	from := r.Offset()
	n, err := r.ReadArrayLen()
	if err != nil {
		return err
	}
	for range n {
		if err := s.readPart(r); err != nil {
			return err
		}
	}
	s.Raw = r.Since(from)
	return nil
}

func (s *StartStops) readPart(r *msgpack.Reader) error {
	fields, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	var start, stop float64
	compute := false
	for range fields {
		k, err := r.ReadName()
		if err != nil {
			return err
		}
		switch string(k) {
		case "action":
			var a string
			if a, err = readText(r); a == "compute" {
				compute = true
			}
		case "start":
			start, err = r.ReadFloat()
		case "stop":
			stop, err = r.ReadFloat()
		default:
			err = r.Skip()
		}
		if err != nil {
			return err
		}
	}
	if compute {
		s.Start, s.Stop = start, stop
	}
	return nil
}

// append appends the list.
func (s *StartStops) append(b []byte) []byte {
	b = msgpack.AppendArrayHeader(b, len(s.Parts))
	for i := range s.Parts {
		p := &s.Parts[i]
		b = append(b, "\x83\xa6action"...)
		b = msgpack.AppendString(b, p.Action)
		b = append(b, "\xa5start"...)
		b = msgpack.AppendFloat(b, p.Start)
		b = append(b, "\xa4stop"...)
		b = msgpack.AppendFloat(b, p.Stop)
	}
	return b
}
