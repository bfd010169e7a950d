// Package temporalui protects the Temporal UI. The UI accepts requests for any host and from any origin. A web page
// with a host name that resolves to this machine could therefore read histories and terminate runs.
package temporalui

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
)

// Handler forwards requests to the Temporal UI at ui. It rejects requests for a host other than localhost, 127.0.0.1 or
// one of hosts. It also rejects requests that a page of another origin sends.
func Handler(ui *url.URL, hosts ...string) http.Handler {
	proxy := httputil.NewSingleHostReverseProxy(ui)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		http.Error(w, "the Temporal UI does not answer", http.StatusBadGateway)
	}
	hosts = append([]string{"localhost", "127.0.0.1"}, hosts...)
	forward := http.NewCrossOriginProtection().Handler(proxy)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !slices.Contains(hosts, host) {
			http.Error(w, "open the Temporal UI at "+strings.Join(hosts, " or "), http.StatusMisdirectedRequest)
			return
		}
		// CrossOriginProtection accepts every GET. A browser sends Origin with a GET if a page of another origin reads
		// the response.
		_, origin, _ := strings.Cut(r.Header.Get("Origin"), "://")
		if r.Header.Get("Origin") != "" && origin != r.Host {
			http.Error(w, "a page of another origin asked for this", http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	})
}
