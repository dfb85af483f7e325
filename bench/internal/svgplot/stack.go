package svgplot

import (
	"bytes"
	"fmt"
	"io"
)

// Panel is a picture that can be part of a Stack: a Plot or Bars.
type Panel interface {
	height() int
	draw(*bytes.Buffer)
}

// Stack is a picture of panels, one below the other.
type Stack []Panel

// WriteTo writes the picture.
func (s Stack) WriteTo(w io.Writer) (int64, error) {
	total := 0
	for _, p := range s {
		total += p.height()
	}
	b := &bytes.Buffer{}
	fmt.Fprintf(b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		width, total)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, total)
	y := 0
	for _, p := range s {
		fmt.Fprintf(b, `<g transform="translate(0 %d)">`+"\n", y)
		p.draw(b)
		b.WriteString("</g>\n")
		y += p.height()
	}
	b.WriteString("</svg>\n")
	return b.WriteTo(w)
}

func heading(b *bytes.Buffer, title string) {
	fmt.Fprintf(b, `<text x="%d" y="28" font-size="16" font-weight="bold">%s</text>`+"\n", left, text(title))
}
