package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// budget is what the page may weigh, all files gzipped, in bytes (docs/page.md).
const budget = 150_000

// TestWeight (W1): the page weighs no more than its budget, with all of its files.
func TestWeight(t *testing.T) {
	total := 0
	eachFile(t, func(_ string, text []byte) {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		total += packed.Len()
	})
	if total < 20_000 || total > budget {
		t.Errorf("the page weighs %d bytes gzipped, want a whole page of at most %d", total, budget)
	}
}

// TestBuiltFromTheseSources (W1): the files in dist were built from the sources beside them.
func TestBuiltFromTheseSources(t *testing.T) {
	built, err := fs.ReadFile(Files(), "sources.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.TrimSpace(string(built)), sourcesHash(t); got != want {
		t.Errorf("the built page is out of date: run 'make page' and commit api/web/dist (built from %s, sources are %s)", got, want)
	}
}

// sourcesHash is what sources.js writes into dist: the hash of the hashes and names of all that
// the built files follow from.
func sourcesHash(t *testing.T) string {
	t.Helper()
	var names []string
	for _, name := range []string{
		"index.html", "package-lock.json", "package.json", "buf.gen.yaml", "svelte.config.js", "tsconfig.json", "vite.config.js",
	} {
		names = append(names, path.Join("api/web", name))
	}
	root := os.DirFS("../..")
	for _, folder := range []string{"api/web/src", "api/web/public", "messages/apipb", "messages/eventpb", "messages/explainpb"} {
		err := fs.WalkDir(root, folder, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case name == "api/web/src/gen":
				return fs.SkipDir
			case !e.IsDir() && (strings.HasPrefix(folder, "api/") || path.Ext(name) == ".proto"):
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	all := sha256.New()
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		one := sha256.Sum256(text)
		fmt.Fprintf(all, "%s  %s\n", hex.EncodeToString(one[:]), name)
	}
	return hex.EncodeToString(all.Sum(nil))
}

// TestStrictPolicy (W1): the page loads its own files alone, and has no inline script or style,
// so that it works under a policy without unsafe-inline.
func TestStrictPolicy(t *testing.T) {
	index, err := fs.ReadFile(Files(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	html := string(index)
	for what, pattern := range map[string]string{
		"an inline script":       `<script(?:[^>]*)>[^<]`,
		"an inline style":        `<style|\sstyle=`,
		"an inline handler":      `\son[a-z]+=`,
		"a file of another host": `(?:src|href)="(?:https?:)?//`,
	} {
		if found := regexp.MustCompile(pattern).FindString(html); found != "" {
			t.Errorf("index.html has %s: %q", what, found)
		}
	}
	links := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(html, -1)
	if len(links) < 3 {
		t.Fatalf("index.html names %d files, want a script, a style and an icon", len(links))
	}
	for _, link := range links {
		if _, err := fs.Stat(Files(), link[1]); err != nil {
			t.Errorf("index.html names a file that is not there: %v", err)
		}
	}
	eachFile(t, func(name string, text []byte) {
		if path.Ext(name) == ".css" && regexp.MustCompile(`url\(["']?(?:data|https?):|@import`).Match(text) {
			t.Errorf("%s loads what a strict policy refuses", name)
		}
	})
}

// eachFile calls visit for every file of the page.
func eachFile(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	err := fs.WalkDir(Files(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(Files(), name)
		visit(name, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
