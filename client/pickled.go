package client

import "go.millstream.dev/wire/pickle"

// pickledString reads a pickle of text.
func pickledString(b []byte) (string, bool) {
	v, err := pickle.Load(b, nil, pickleLimits)
	if err != nil {
		return "", false
	}
	s, ok := v.(string)
	return s, ok
}
