package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"
)

// notice is a plain page that says what is wrong and what to do.
type notice struct {
	status      int
	title, text string
	// remedy says what to do, and links there if link is set.
	remedy, link string
	// again, if positive, has the browser go to refresh after so many seconds.
	again   int
	refresh string
}

const noticeStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:15vh auto 0;padding:0 1.5em;color:#1a1d21;background:#fff}` +
	`h1{font-size:1.4em}a{color:#0b5cad}@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}a{color:#7db7f0}}`

// noticePolicy lets a notice have its style, by its hash, and nothing else.
var noticePolicy = func() string {
	sum := sha256.Sum256([]byte(noticeStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

var noticePage = template.Must(template.New("notice").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}} – Weir</title>
{{if .Again}}<meta http-equiv="refresh" content="{{.Again}}; url={{.Refresh}}">{{end}}<style>` + noticeStyle + `</style></head>
<body><h1>{{.Title}}</h1><p>{{.Text}}</p><p>{{if .Link}}<a href="{{.Link}}">{{.Remedy}}</a>{{else}}{{.Remedy}}{{end}}</p></body></html>
`))

func (n notice) write(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", noticePolicy)
	if n.again > 0 {
		header.Set("Retry-After", strconv.Itoa(n.again))
	}
	w.WriteHeader(n.status)
	// Whoever no longer listens needs no page.
	_ = noticePage.Execute(w, struct {
		Title, Text, Remedy, Link, Refresh string
		Again                              int
	}{n.title, n.text, n.remedy, n.link, n.refresh, n.again})
}
