// Command workspaced-dev plays the service and the gateway for one sandbox on the
// loopback address: for development, tests and the rehearsal.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"

	"workspaced/internal/access"
	"workspaced/internal/devkeys"
	"workspaced/internal/relay"
)

const usage = `workspaced-dev plays the service and the gateway for one sandbox.

  workspaced-dev keys FOLDER                    create a key pair; FOLDER/keys.json is for --keys
  workspaced-dev token [flags] FOLDER           print a token
  workspaced-dev gateway [flags] FOLDER         serve a sandbox to clients that bring no token
  workspaced-dev dial URL TOKEN-FILE            ProxyCommand of OpenSSH
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var err error
	switch arguments := os.Args[2:]; os.Args[1] {
	case "keys":
		err = keys(arguments)
	case "token":
		err = token(arguments)
	case "gateway":
		err = gateway(arguments)
	case "dial":
		err = dialCommand(arguments)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "workspaced-dev:", err)
		os.Exit(1)
	}
}

func keys(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("keys: name one folder")
	}
	signer, err := devkeys.New("dev", "", "")
	if err != nil {
		return err
	}
	path, err := signer.Write(arguments[0])
	if err == nil {
		fmt.Println(path)
	}
	return err
}

// signing reads the flags that say what a token is for.
type signing struct {
	*flag.FlagSet
	pod, claim, scope, session string
}

func newSigning(name string) *signing {
	s := &signing{FlagSet: flag.NewFlagSet("workspaced-dev "+name, flag.ContinueOnError)}
	s.StringVar(&s.pod, "pod-uid", "dev-pod", "the pod's uid")
	s.StringVar(&s.claim, "claim", "dev-claim", "the claim's uid")
	s.StringVar(&s.scope, "scope", "api ssh ports control", "what the bearer may do")
	s.StringVar(&s.session, "session", "", "the session")
	return s
}

func (s *signing) signer() (*devkeys.Signer, error) {
	if s.NArg() != 1 {
		return nil, fmt.Errorf("name the folder of the keys")
	}
	return devkeys.Read(s.Arg(0), s.pod, s.claim)
}

func token(arguments []string) error {
	set := newSigning("token")
	if err := set.Parse(arguments); err != nil {
		return err
	}
	signer, err := set.signer()
	if err == nil {
		fmt.Println(signer.Token(set.scope, set.session))
	}
	return err
}

// gateway relays requests to a sandbox with a token of its own, as the real one
// does after it has admitted a caller.
func gateway(arguments []string) error {
	set := newSigning("gateway")
	listen := set.String("listen", "127.0.0.1:49984", "the address to listen on")
	to := set.String("to", "http://127.0.0.1:49983", "the sandbox, or unix:PATH")
	port := set.String("port", "", "relay to this port of the sandbox")
	if err := set.Parse(arguments); err != nil {
		return err
	}
	signer, err := set.signer()
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if path, unix := strings.CutPrefix(*to, "unix:"); unix {
		*to = "http://sandbox"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	target, err := url.Parse(*to)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		access.Strip(r.Out.Header)
		r.Out.Header.Del(relay.PortHeader)
		r.Out.Header.Set(access.TokenHeader, signer.Token(set.scope, set.session))
		if *port != "" {
			r.Out.Header.Set(relay.PortHeader, *port)
		}
	}}
	return http.ListenAndServe(*listen, proxy)
}
