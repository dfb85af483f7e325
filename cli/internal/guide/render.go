package guide

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	"go.millstream.dev/internal/proc/docfiles"
)

// markdown converts the documents. Raw HTML passes: the documents are part of the binary.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(html.WithUnsafe()))

// section is the text below one heading of a page.
type section struct {
	Heading string // "" before the first
	Anchor  string
	text    string // without markup
	level   int    // of the heading, 1 to 6
}

// page is a document.
type page struct {
	path     string // in the repository, such as docs/guide/ucx.md
	title    string
	body     template.HTML
	sections []section
}

// parsePage renders a document and splits it at its headings.
func parsePage(path string, source []byte) (*page, error) {
	doc := markdown.Parser().Parse(text.NewReader(source))
	p := &page{path: path, title: path}
	slugs := docfiles.Slugs{}
	var plain strings.Builder
	current := section{}
	flush := func() {
		current.text = strings.Join(strings.Fields(plain.String()), " ")
		if current.Heading != "" || current.text != "" {
			p.sections = append(p.sections, current)
		}
		plain.Reset()
	}
	for node := doc.FirstChild(); node != nil; node = node.NextSibling() {
		h, ok := node.(*ast.Heading)
		if !ok {
			writePlain(&plain, node, source)
			continue
		}
		flush()
		var name strings.Builder
		writePlain(&name, node, source)
		heading := strings.Join(strings.Fields(name.String()), " ")
		current = section{Heading: heading, Anchor: slugs.Next(heading), level: h.Level}
		h.SetAttributeString("id", []byte(current.Anchor))
		if h.Level == 1 && p.title == path {
			p.title = heading
		}
	}
	flush()
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, doc); err != nil {
		return nil, err
	}
	p.body = template.HTML(body.String())
	return p, nil
}

// writePlain writes the text of a node and of those below it.
func writePlain(out *strings.Builder, node ast.Node, source []byte) {
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				out.WriteByte(' ')
			}
		case *ast.String:
			out.Write(n.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				out.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
}
