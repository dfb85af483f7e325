// Package docs adds the documents of Millstream to a binary, for the command docs. Import it for its side effect:
//
//	import _ "go.millstream.dev/docs"
package docs

import (
	"embed"

	"go.millstream.dev/internal/proc/docfiles"
)

//go:embed *.md gpu-run.json adr guide plots protocol
var files embed.FS

func init() { docfiles.Files = files }
