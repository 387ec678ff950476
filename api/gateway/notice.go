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
	// retry, if set, is a path that the page asks every askAgain seconds, and goes to when it leads on. Until then
	// the page stays as it is, for those who have it read to them.
	retry string
}

const noticeStyle = `body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:15vh auto 0;padding:0 1.5em;color:#1a1d21;background:#fff}` +
	`h1{font-size:1.4em}p{overflow-wrap:anywhere}a{color:#0b5cad}@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}a{color:#7db7f0}}`

// noticeScript asks again. A page that is not reached asks on.
var noticeScript = `const to=document.body.dataset.retry;` +
	`if(to)setInterval(async()=>{const a=await fetch(to,{redirect:"manual"}).catch(()=>({}));if(a.type==="opaqueredirect")location.replace(to)},` + strconv.Itoa(askAgain*1000) + `)`

// noticePolicy lets a notice have its style and its script, by their hashes, ask this address, and nothing else.
var noticePolicy = "default-src 'none'; style-src " + hashOf(noticeStyle) + "; script-src " + hashOf(noticeScript) +
	"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var noticePage = template.Must(template.New("notice").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}} – Weir</title>
<style>` + noticeStyle + `</style></head>
<body{{if .Retry}} data-retry="{{.Retry}}"{{end}}><main><h1>{{.Title}}</h1><p>{{.Text}}</p>{{if .Retry}}<p>This page tries again by itself.</p>{{end}}
<p>{{if .Link}}<a href="{{.Link}}">{{.Remedy}}</a>{{else}}{{.Remedy}}{{end}}</p></main>{{if .Retry}}<script>` + noticeScript + `</script>{{end}}</body></html>
`))

func (n notice) write(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", noticePolicy)
	if n.retry != "" {
		header.Set("Retry-After", strconv.Itoa(askAgain))
	}
	w.WriteHeader(n.status)
	// Whoever no longer listens needs no page.
	_ = noticePage.Execute(w, struct {
		Title, Text, Remedy, Link, Retry string
	}{n.title, n.text, n.remedy, n.link, n.retry})
}
