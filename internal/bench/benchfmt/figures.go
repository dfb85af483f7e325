package benchfmt

// Figures is a [Sink] that keeps what it is given, and refuses what makes no sense.
type Figures []Figure

// Add keeps a figure.
func (f *Figures) Add(x Figure) error {
	*f = append(*f, x)
	return x.Validate()
}

// Close does nothing.
func (f *Figures) Close() error { return nil }
