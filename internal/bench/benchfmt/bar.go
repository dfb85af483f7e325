package benchfmt

// Bar is a target of a figure. Figure.Better determines the direction.
type Bar struct {
	// Value is the target.
	Value float64
	// Ratio specifies that the target applies to the ratio to the peer.
	Ratio bool
}

// Met reports whether the figure reaches its bar. known is false without a bar, and for the bar of a ratio if no peer
// ran.
func (f Figure) Met() (met, known bool) {
	if f.Bar == nil {
		return false, false
	}
	v := f.Ours
	if f.Bar.Ratio {
		var ok bool
		if v, ok = f.Ratio(); !ok {
			return false, false
		}
	}
	if f.Better == Higher {
		return v >= f.Bar.Value, true
	}
	return v <= f.Bar.Value, true
}

// barText returns the bar with its outcome, such as "≥ 50 ×  ✓".
func (f Figure) barText() string {
	if f.Bar == nil {
		return ""
	}
	text := "≤ "
	if f.Better == Higher {
		text = "≥ "
	}
	text += trimValue(f.Bar.Value)
	if f.Bar.Ratio {
		text += " ×"
	}
	met, known := f.Met()
	switch {
	case !known:
		return text
	case met:
		return text + " ✓"
	default:
		return text + " ✗"
	}
}
