package msgpack

// Markers in a message's body refer to a value in separate frames: a map with one entry, from the marker's name to the
// index of the first of these frames.
const (
	// Serialized marks a value that is encoded by one of Dask's serializers.
	Serialized = "__Serialized__"
	// Pickled marks a value that is unpickled on arrival.
	Pickled = "__Pickled__"
)

// Set is the key of a map that stands for a Python set, and SetItems that of its entry with the list of items.
const (
	Set      = "__Set__"
	SetItems = "as-list"
)

// AppendMarker appends a marker up to the index of the frame, an integer, which follows.
func AppendMarker(dst []byte, name string) []byte {
	return AppendString(AppendMapHeader(dst, 1), name)
}

// ReadMarker returns the name of a marker, Serialized or Pickled, and the unchecked index of its first frame; "" for
// any other value, which may then be partly read.
func (r *Reader) ReadMarker() (name string, frame int64, err error) {
	if r.Kind() != MapKind {
		return "", 0, nil
	}
	if n, err := r.ReadMapLen(); err != nil || n != 1 || r.Kind() != Str {
		return "", 0, err
	}
	k, err := r.ReadStringBytes()
	switch {
	case err != nil:
		return "", 0, err
	case string(k) == Serialized:
		name = Serialized
	case string(k) == Pickled:
		name = Pickled
	}
	if name == "" || r.Kind() != Int {
		return "", 0, nil
	}
	frame, err = r.ReadInt()
	return name, frame, err
}
