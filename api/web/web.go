// Package web is the page that shows a cluster in a browser: its built files, embedded. Their
// sources are beside them, in src; `make page` builds them. docs/page.md says what it shows.
package web

import (
	"embed"
	"io/fs"
)

//go:embed dist
var built embed.FS

// Files returns the files of the page, to be served at one path with index.html as its root.
// It needs nothing that a strict content security policy refuses: no inline scripts or styles, no
// data: URLs, and no other hosts.
func Files() fs.FS {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic("web: the folder dist is not embedded: " + err.Error())
	}
	return files
}
