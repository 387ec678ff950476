package browse

import (
	"io/fs"
	"testing/fstest"
)

// files returns the page.
func files() fs.FS {
	// web.Files() goes here.
	return fstest.MapFS{"index.html": {Data: []byte("<!doctype html><title>Weir</title>")}}
}
