// Package storagetest provides an object store for tests: a server on the loopback that
// supports as much of S3 as package storage and job proxies use, and fails on demand.
package storagetest

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The keys with which clients of the server sign. The server checks that a request is
// signed with AccessKey, but does not verify the signature.
const (
	AccessKey = "weir"
	SecretKey = "weir-secret"
)

// Server is an object store.
type Server struct {
	// URL is the server's address.
	URL string

	mu      sync.Mutex
	buckets map[string]map[string]*object
	uploads map[string]*upload
	number  int
	fault   func(*http.Request) int
}

type object struct {
	data     []byte
	etag     string
	modified time.Time
	meta     http.Header
}

type upload struct {
	bucket, key string
	meta        http.Header
	parts       map[int][]byte
}

// Serve starts a server with these buckets, which stops at the end of the test.
func Serve(t testing.TB, buckets ...string) *Server {
	s := &Server{buckets: map[string]map[string]*object{}, uploads: map[string]*upload{}}
	for _, bucket := range buckets {
		s.buckets[bucket] = map[string]*object{}
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Environment returns the environment with which a replica's processes use the server.
func (s *Server) Environment() []string {
	return []string{"AWS_ENDPOINT_URL=" + s.URL, "AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey, "AWS_REGION=us-east-1"}
}

// Fail sets a function that decides on each request before it is handled: a positive
// status is returned as the answer, a negative one breaks the connection, 0 lets the
// request proceed. It is called concurrently.
func (s *Server) Fail(fault func(*http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Put stores an object.
func (s *Server) Put(bucket, key, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(bucket, key, []byte(data), nil)
}

// Data returns the content of an object.
func (s *Server) Data(bucket, key string) (data string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.buckets[bucket][key]
	if !ok {
		return "", false
	}
	return string(o.data), true
}

// Keys returns the keys of all objects in a bucket, sorted.
func (s *Server) Keys(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys(bucket, "")
}

// Uploads returns the number of unfinished multipart uploads.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

func (s *Server) keys(bucket, prefix string) (keys []string) {
	for key := range s.buckets[bucket] {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (s *Server) put(bucket, key string, data []byte, meta http.Header) *object {
	sum := md5.Sum(data)
	o := &object{data: data, etag: hex.EncodeToString(sum[:]), modified: time.Now().UTC().Truncate(time.Second), meta: meta}
	s.buckets[bucket][key] = o
	return o
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		if status := fault(r); status < 0 {
			panic(http.ErrAbortHandler)
		} else if status > 0 {
			refuse(w, r, status, "Broken")
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(r.Header.Get("Authorization"), AccessKey+"/") && !strings.Contains(r.URL.Query().Get("X-Amz-Credential"), AccessKey+"/") {
		refuse(w, r, http.StatusForbidden, "AccessDenied")
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if s.buckets[bucket] == nil {
		refuse(w, r, http.StatusNotFound, "NoSuchBucket")
		return
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body = unchunk(body)
	}
	query := r.URL.Query()
	switch {
	case key == "" && r.Method == http.MethodHead:
	case key == "" && query.Has("uploads"):
		s.listUploads(w, bucket, query.Get("prefix"))
	case key == "" && r.Method == http.MethodGet:
		s.list(w, bucket, query)
	case r.Method == http.MethodPost && query.Has("uploads"):
		s.begin(w, r, bucket, key)
	case query.Has("uploadId"):
		s.multipart(w, r, bucket, key, body)
	case r.Method == http.MethodPut:
		s.putObject(w, r, bucket, key, body)
	case r.Method == http.MethodDelete:
		delete(s.buckets[bucket], key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.get(w, r, bucket, key)
	default:
		refuse(w, r, http.StatusNotImplemented, "NotImplemented")
	}
}

// unchunk removes the chunk headers and their signatures from a body.
func unchunk(body []byte) (data []byte) {
	for {
		head, rest, ok := bytes.Cut(body, []byte("\r\n"))
		length, err := strconv.ParseInt(strings.SplitN(string(head), ";", 2)[0], 16, 64)
		if !ok || err != nil || length == 0 || int64(len(rest)) < length {
			return data
		}
		data = append(data, rest[:length]...)
		body = bytes.TrimPrefix(rest[length:], []byte("\r\n"))
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, bucket, key string) {
	o, ok := s.buckets[bucket][key]
	switch match := strings.Trim(r.Header.Get("If-Match"), `"`); {
	case !ok:
		refuse(w, r, http.StatusNotFound, "NoSuchKey")
		return
	case match != "" && match != o.etag:
		refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
		return
	}
	for name, values := range o.meta {
		w.Header()[name] = values
	}
	w.Header().Set("ETag", `"`+o.etag+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", o.modified, bytes.NewReader(o.data))
}

func (s *Server) putObject(w http.ResponseWriter, r *http.Request, bucket, key string, body []byte) {
	if s.taken(w, r, bucket, key) {
		return
	}
	if from := r.Header.Get("X-Amz-Copy-Source"); from != "" {
		data, ok := s.source(w, r, from)
		if !ok {
			return
		}
		o := s.put(bucket, key, data, meta(r.Header))
		write(w, "CopyObjectResult", fmt.Sprintf(`<ETag>"%s"</ETag><LastModified>%s</LastModified>`, o.etag, o.modified.Format(time.RFC3339)))
		return
	}
	w.Header().Set("ETag", `"`+s.put(bucket, key, body, meta(r.Header)).etag+`"`)
}

// taken refuses to replace an object if the request forbids that.
func (s *Server) taken(w http.ResponseWriter, r *http.Request, bucket, key string) bool {
	_, ok := s.buckets[bucket][key]
	if ok && r.Header.Get("If-None-Match") != "" {
		refuse(w, r, http.StatusPreconditionFailed, "PreconditionFailed")
		return true
	}
	return false
}

// source returns the data to be copied.
func (s *Server) source(w http.ResponseWriter, r *http.Request, from string) (data []byte, ok bool) {
	name, err := url.PathUnescape(strings.TrimPrefix(from, "/"))
	bucket, key, _ := strings.Cut(name, "/")
	o, found := s.buckets[bucket][key]
	if err != nil || !found {
		refuse(w, r, http.StatusNotFound, "NoSuchKey")
		return nil, false
	}
	part := r.Header.Get("X-Amz-Copy-Source-Range")
	if part == "" {
		return o.data, true
	}
	var begin, end int
	if _, err := fmt.Sscanf(part, "bytes=%d-%d", &begin, &end); err != nil || end >= len(o.data) {
		refuse(w, r, http.StatusBadRequest, "InvalidRange")
		return nil, false
	}
	return o.data[begin : end+1], true
}

func meta(header http.Header) http.Header {
	kept := http.Header{}
	for name, values := range header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			kept[name] = values
		}
	}
	return kept
}

func (s *Server) list(w http.ResponseWriter, bucket string, query url.Values) {
	keys := s.keys(bucket, query.Get("prefix"))
	after := cmp.Or(query.Get("continuation-token"), query.Get("start-after"))
	keys = slices.DeleteFunc(keys, func(key string) bool { return key <= after })
	// Pages are small, so that tests use several of them.
	const page = 3
	more := len(keys) > page
	keys = keys[:min(page, len(keys))]
	var text strings.Builder
	fmt.Fprintf(&text, "<Name>%s</Name><KeyCount>%d</KeyCount><IsTruncated>%t</IsTruncated>", bucket, len(keys), more)
	encoded := query.Get("encoding-type") == "url"
	if encoded {
		text.WriteString("<EncodingType>url</EncodingType>")
	}
	if more {
		fmt.Fprintf(&text, "<NextContinuationToken>%s</NextContinuationToken>", escape(keys[page-1]))
	}
	for _, key := range keys {
		o := s.buckets[bucket][key]
		if encoded {
			key = url.QueryEscape(key)
		}
		fmt.Fprintf(&text, `<Contents><Key>%s</Key><Size>%d</Size><ETag>"%s"</ETag><LastModified>%s</LastModified></Contents>`,
			escape(key), len(o.data), o.etag, o.modified.Format(time.RFC3339))
	}
	write(w, "ListBucketResult", text.String())
}

func escape(text string) string {
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(text)); err != nil {
		return ""
	}
	return out.String()
}

func write(w http.ResponseWriter, root, inner string) {
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><%s xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</%s>`, root, inner, root)
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message><BucketName>%s</BucketName></Error>", code, code, escape(bucket))
	}
}
