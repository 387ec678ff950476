package storage_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/cluster/storage"
	"weir/cluster/storage/storagetest"
)

// tree makes files below a new folder, by name; a name with a slash at its end is a folder.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		full := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(full, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		must(t, os.WriteFile(full, []byte(name), 0o644))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// everywhere is a machine of which all files may be used.
var everywhere = storage.Config{Roots: []string{"/"}}

func TestListLocalFiles(t *testing.T) {
	dir := tree(t, "a.txt", "b.log", "sub/c.txt", "sub/deep/d.txt", "sub/deep/e.log", "empty/", "out.txt.weir-0198f3/part-0", "z[1].txt")
	must(t, os.Symlink(filepath.Join(dir, "a.txt"), filepath.Join(dir, "sub/link.txt")))
	must(t, os.Symlink(dir, filepath.Join(dir, "empty/loop")))
	must(t, syscall.Mknod(filepath.Join(dir, "sock"), syscall.S_IFSOCK|0o600, 0))
	tests := map[string]struct {
		paths     []string
		want      []string
		wantError string
	}{
		"files stay in the order in which they are given": {paths: []string{"b.log", "a.txt"}, want: []string{"b.log", "a.txt"}},
		"a folder is all files below it, by name":         {paths: []string{"sub"}, want: []string{"sub/c.txt", "sub/deep/d.txt", "sub/deep/e.log", "sub/link.txt"}},
		"a star stays within a folder":                    {paths: []string{"*.txt"}, want: []string{"a.txt", "z[1].txt"}},
		"two stars do not":                                {paths: []string{"**/*.txt"}, want: []string{"a.txt", "sub/c.txt", "sub/deep/d.txt", "sub/link.txt", "z[1].txt"}},
		"two stars in the middle":                         {paths: []string{"sub/**/e.log"}, want: []string{"sub/deep/e.log"}},
		"a file with the signs of a pattern in its name":  {paths: []string{"z[1].txt"}, want: []string{"z[1].txt"}},
		"a pattern that matches nothing":                  {paths: []string{"*.csv"}, wantError: "*.csv: no file matches"},
		"a pattern that is none":                          {paths: []string{"[a-"}, wantError: "syntax error in pattern"},
		"a file that is not there":                        {paths: []string{"a.txt", "gone"}, wantError: "gone: no such file or directory"},
		"a socket":                                        {paths: []string{"sock"}, wantError: "is a socket, not a regular file"},
		"a link to a folder":                              {paths: []string{"empty"}, wantError: "loop is a link to a folder"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var paths, got []string
			for _, path := range test.paths {
				paths = append(paths, dir+"/"+path)
			}
			files, err := storage.New(everywhere).List(t.Context(), paths)
			if test.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantError) {
					t.Fatalf("error %v, want one with %q", err, test.wantError)
				}
				return
			}
			must(t, err)
			for _, file := range files {
				name := strings.TrimPrefix(file.GetPath(), dir+"/")
				got = append(got, name)
				info, err := os.Stat(file.GetPath())
				must(t, err)
				if file.GetSize() != info.Size() || !file.GetModifiedTime().AsTime().Equal(info.ModTime()) {
					t.Errorf("%s: %v, and it is of %d bytes, changed at %s", name, file, info.Size(), info.ModTime())
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("listed %q, want %q", got, test.want)
			}
		})
	}
}

func TestListRefusesWhatCannotBeRead(t *testing.T) {
	dir := tree(t, "data/ok", "data/secret", "other/file")
	t.Run("a path that depends on who reads it", func(t *testing.T) {
		wantError(t, list(t, storage.Config{}, "data/ok"), "not an absolute path")
	})
	t.Run("another scheme", func(t *testing.T) {
		wantError(t, list(t, storage.Config{}, "ftp://host/file"), "unsupported scheme ftp://")
	})
	t.Run("a file of somebody else", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root reads everything")
		}
		must(t, os.Chmod(dir+"/data/secret", 0))
		wantError(t, list(t, everywhere, dir+"/data"), "secret: permission denied")
	})
	roots := storage.Config{Roots: []string{dir + "/data"}}
	t.Run("no folder may be used", func(t *testing.T) {
		wantError(t, list(t, storage.Config{}, dir+"/data"), "start replicas with --data-root")
	})
	t.Run("a file outside of the folders that may be used", func(t *testing.T) {
		wantError(t, list(t, roots, dir+"/other/file"), storage.ErrForbidden.Error())
	})
	t.Run("a link that leads out of them", func(t *testing.T) {
		must(t, os.Symlink(dir+"/other/file", dir+"/data/link"))
		wantError(t, list(t, roots, dir+"/data/link"), storage.ErrForbidden.Error())
	})
	t.Run("a file within is read", func(t *testing.T) {
		must(t, list(t, roots, dir+"/data/ok"))
	})
}

func list(t *testing.T, cfg storage.Config, paths ...string) error {
	t.Helper()
	_, err := storage.New(cfg).List(t.Context(), paths)
	return err
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one with %q", err, text)
	}
}

// store returns a storage that speaks to a server of the test.
func store(server *storagetest.Server) *storage.Storage {
	return storage.New(storage.Config{S3: storage.S3Config{
		Endpoint: server.URL, AccessKey: storagetest.AccessKey, SecretKey: storagetest.SecretKey, Attempts: 3, Timeout: time.Minute,
	}})
}

func TestListObjects(t *testing.T) {
	server := storagetest.Serve(t, "data")
	for _, key := range []string{"in/a.txt", "in/b.log", "in/sub/c.txt", "in/sub/d & e.txt", "in/sub/", "out.weir-0198f3/part-0", "top.txt"} {
		server.Put("data", key, key)
	}
	tests := map[string]struct {
		path, wantError string
		want            []string
	}{
		"an object":                  {path: "s3://data/top.txt", want: []string{"top.txt"}},
		"all that begins with it":    {path: "s3://data/in/", want: []string{"in/a.txt", "in/b.log", "in/sub/c.txt", "in/sub/d & e.txt"}},
		"a bucket":                   {path: "s3://data/", want: []string{"in/a.txt", "in/b.log", "in/sub/c.txt", "in/sub/d & e.txt", "top.txt"}},
		"a pattern":                  {path: "s3://data/in/*.txt", want: []string{"in/a.txt"}},
		"a pattern over folders":     {path: "s3://data/**/*.txt", want: []string{"in/a.txt", "in/sub/c.txt", "in/sub/d & e.txt", "top.txt"}},
		"nothing of that name":       {path: "s3://data/in", wantError: "there is no such object: to read all objects below a name"},
		"nothing that begins so":     {path: "s3://data/none/", wantError: "no object begins with this name"},
		"nothing that matches":       {path: "s3://data/in/*.csv", wantError: "no object matches"},
		"a bucket that is not there": {path: "s3://dta/in/", wantError: `there is no bucket "dta"`},
		"an object of no bucket":     {path: "s3://dta/top.txt", wantError: `there is no bucket "dta"`},
		"no bucket":                  {path: "s3://", wantError: "no bucket"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files, err := store(server).List(t.Context(), []string{test.path})
			if test.wantError != "" {
				wantError(t, err, test.wantError)
				return
			}
			must(t, err)
			var got []string
			for _, file := range files {
				key := strings.TrimPrefix(file.GetPath(), "s3://data/")
				got = append(got, key)
				if file.GetSize() != int64(len(key)) || file.GetVersion() == "" {
					t.Errorf("%v", file)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("listed %q, want %q", got, test.want)
			}
		})
	}
}

func TestStoreThatIsNotWell(t *testing.T) {
	server := storagetest.Serve(t, "data")
	server.Put("data", "file", "text")
	list := func(ctx context.Context) error {
		_, err := store(server).List(ctx, []string{"s3://data/file"})
		return err
	}
	t.Run("a fault is retried", func(t *testing.T) {
		var asked atomic.Int64
		server.Fail(func(*http.Request) int {
			if asked.Add(1) > 2 {
				return 0
			}
			return http.StatusServiceUnavailable
		})
		must(t, list(t.Context()))
	})
	t.Run("but not for ever", func(t *testing.T) {
		server.Fail(func(*http.Request) int { return http.StatusServiceUnavailable })
		wantError(t, list(t.Context()), "input s3://data/file: object store failing after 3 attempts")
	})
	t.Run("nor is a connection that breaks off", func(t *testing.T) {
		server.Fail(func(*http.Request) int { return -1 })
		wantError(t, list(t.Context()), "object store failing after 3 attempts")
	})
	t.Run("what is forbidden is not asked for again", func(t *testing.T) {
		var asked atomic.Int64
		server.Fail(func(*http.Request) int { asked.Add(1); return http.StatusForbidden })
		wantError(t, list(t.Context()), "access denied by the object store")
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
	t.Run("nor is silence waited for", func(t *testing.T) {
		over := make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
		t.Cleanup(silent.Close)
		t.Cleanup(func() { close(over) })
		_, err := storage.New(storage.Config{S3: storage.S3Config{
			Endpoint: silent.URL, AccessKey: storagetest.AccessKey, SecretKey: storagetest.SecretKey, Attempts: 2, Timeout: time.Second,
		}}).List(t.Context(), []string{"s3://data/file"})
		wantError(t, err, "object store failing after 2 attempts")
		wantError(t, err, "timeout awaiting response headers")
	})
	t.Run("who calls it off is heard", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := list(ctx); err == nil {
			t.Error("no error")
		}
	})
}

func TestSettingsOfTheEnvironment(t *testing.T) {
	server := storagetest.Serve(t, "data")
	server.Put("data", "file", "text")
	for _, setting := range server.Environment() {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	must(t, list(t, storage.Config{}, "s3://data/file"))
	t.Run("an endpoint of a service wins", func(t *testing.T) {
		t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
		t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
		must(t, list(t, storage.Config{}, "s3://data/file"))
	})
	t.Run("a file of the AWS tools", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "config")
		must(t, os.WriteFile(name, []byte("[profile weir]\nendpoint_url = "+server.URL+"\nregion = us-east-1\n"), 0o600))
		for name, value := range map[string]string{"AWS_CONFIG_FILE": name, "AWS_PROFILE": "weir", "AWS_ENDPOINT_URL": "", "AWS_REGION": ""} {
			t.Setenv(name, value)
		}
		must(t, list(t, storage.Config{}, "s3://data/file"))
	})
	t.Run("an endpoint that is not an http:// or https:// URL", func(t *testing.T) {
		t.Setenv("AWS_ENDPOINT_URL", "localhost:9000")
		wantError(t, list(t, storage.Config{}, "s3://data/file"), `endpoint "localhost:9000" is not an http:// or https:// URL`)
	})
}
