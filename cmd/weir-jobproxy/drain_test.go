package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/actors/agent/runner/output"
	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// TestDrain reads what is in a pipe when time is up, and says whether that is all.
func TestDrain(t *testing.T) {
	tests := map[string]struct {
		data string
		// open: somebody holds the pipe, and more comes when what there was has been read.
		open    bool
		more    string
		wantErr error
	}{
		"all was written":       {data: "all of it", wantErr: io.EOF},
		"nothing was":           {wantErr: io.EOF},
		"somebody holds it":     {data: "all of it", open: true, wantErr: os.ErrDeadlineExceeded},
		"somebody writes on":    {data: "all of it", open: true, more: "more", wantErr: os.ErrDeadlineExceeded},
		"somebody writes later": {open: true, more: "more", wantErr: os.ErrDeadlineExceeded},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reader, writer, err := os.Pipe()
			must(t, err)
			defer reader.Close()
			defer writer.Close()
			_, err = writer.WriteString(test.data)
			must(t, err)
			if !test.open {
				must(t, writer.Close())
			}
			must(t, reader.SetReadDeadline(time.Unix(1, 0)))
			d := &drain{pipe: reader}
			var got []byte
			for buffer := make([]byte, 4); ; {
				n, err := d.Read(buffer)
				got = append(got, buffer[:n]...)
				if test.more != "" && len(got) == len(test.data) {
					_, moreErr := writer.WriteString(test.more)
					must(t, moreErr)
					test.more = ""
				}
				if err == nil {
					continue
				}
				if string(got) != test.data || !errors.Is(err, test.wantErr) {
					t.Errorf("read %q, %v, want %q, %v", got, err, test.data, test.wantErr)
				}
				break
			}
		})
	}
}

// TestOutputOnASlowDisk is kept though the disk takes it when nobody waits for more.
func TestOutputOnASlowDisk(t *testing.T) {
	data := bytes.Repeat([]byte("0123456\n"), 1000)
	late := func(t *testing.T) *os.File {
		reader, writer, err := os.Pipe()
		must(t, err)
		_, err = writer.Write(data)
		must(t, errors.Join(err, writer.Close(), reader.SetReadDeadline(time.Unix(1, 0))))
		return reader
	}
	t.Run("of a job", func(t *testing.T) {
		folder := t.TempDir()
		c := &capture{reader: drain{pipe: late(t)}, writer: output.NewWriter(folder, "stdout", 1<<20), done: make(chan struct{})}
		c.copy()
		if part, err := output.Read(folder, "stdout", 0, 1<<20); err != nil || !bytes.Equal(part.Data, data) {
			t.Errorf("%d bytes are kept, %v, want %d", len(part.Data), err, len(data))
		}
	})
	t.Run("of a fed one", func(t *testing.T) {
		feed := &proxyproto.Feed{Format: string(records.Lines), Output: filepath.Join(t.TempDir(), "part"), Part: "part-7"}
		k, writer, err := openSink(feed, nil, t.TempDir(), new(progress))
		must(t, err)
		must(t, errors.Join(writer.Close(), k.reader.pipe.Close()))
		k.reader.pipe = late(t)
		k.run(func(err error) { t.Error(err) })
		count, err := k.keep(t.Context())
		if err != nil || count.Rows != 1000 || count.Bytes != int64(len(data)) {
			t.Errorf("kept %+v, %v, want all", count, err)
		}
		k.discard()
	})
}
