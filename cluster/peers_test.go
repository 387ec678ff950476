package cluster

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func parse(t interface {
	Helper()
	Fatal(...any)
}, entries ...string) Peers {
	t.Helper()
	peers, err := ParsePeers(entries)
	if err != nil {
		t.Fatal(err)
	}
	return peers
}

func TestParsePeers(t *testing.T) {
	for name, test := range map[string]struct {
		entries []string
		want    string
		wantErr string
	}{
		"sorted by id":    {entries: []string{"r2=b:1", " r1=a:1"}, want: "r1=a:1,r2=b:1"},
		"IPv6":            {entries: []string{"r1=[::1]:70"}, want: "r1=[::1]:70"},
		"none":            {},
		"no id":           {entries: []string{"a:1"}, wantErr: "want id=host:port"},
		"two in one":      {entries: []string{"r1=a:1,r2=b:1"}, wantErr: "want id=host:port"},
		"no port":         {entries: []string{"r1=a"}, wantErr: "want id=host:port"},
		"no host":         {entries: []string{"r1=:7000"}, wantErr: "reachable by others"},
		"any port":        {entries: []string{"r1=a:0"}, wantErr: "reachable by others"},
		"an id twice":     {entries: []string{"r1=a:1", "r1=b:1"}, wantErr: "id r1 is listed twice"},
		"address twice":   {entries: []string{"r1=a:1", "r2=b:1", "r3=a:1"}, wantErr: "address a:1 is listed twice"},
		"too many voters": {entries: strings.Split("a=a:1,b=b:1,c=c:1,d=d:1,e=e:1,f=f:1,g=g:1,h=h:1", ","), wantErr: "at most 7"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePeers(test.entries)
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil || got.String() != test.want {
				t.Fatalf("%v, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	list := parse(t, "r1=a:1", "r2=b:1", "r3=c:1")
	if other := parse(t, "r3=c:1", "r1=a:1", "r2=b:1"); other.Fingerprint() != list.Fingerprint() {
		t.Error("the order of a list changes its fingerprint")
	}
	for _, other := range []Peers{parse(t, "r1=a:1", "r2=b:1"), parse(t, "r1=a:1", "r2=b:1", "r3=c:2"), parse(t, "r1=a:1", "r2=b:1", "r4=c:1"), nil} {
		if other.Fingerprint() == list.Fingerprint() {
			t.Errorf("%s has the fingerprint of %s", other, list)
		}
	}
	if got := (Peers{}).Fingerprint(); got != "" {
		t.Errorf("the empty list has the fingerprint %q", got)
	}
}

func FuzzParsePeers(f *testing.F) {
	f.Add("r1=a:1,r2=b:1")
	f.Add("r1=[::1]:70,=x")
	f.Fuzz(func(t *testing.T, text string) {
		peers, err := ParsePeers(strings.Split(text, ","))
		if err != nil {
			return
		}
		if again := parse(t, strings.Split(peers.String(), ",")...); again.String() != peers.String() {
			t.Fatalf("%q became %q", peers, again)
		}
	})
}

// drawPeers draws a list of one to seven peers.
func drawPeers(t *rapid.T) Peers {
	var entries []string
	for i := range rapid.IntRange(1, maxPeers).Draw(t, "peers") {
		entries = append(entries, string(rune('a'+i))+"=host:"+string(rune('1'+i)))
	}
	return parse(t, entries...)
}
