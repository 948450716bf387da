// Six chat servers in Go: net/http with encoding/json, Echo and Fiber, each once with the framework's
// router and once dispatching by the end of the path. Prints {"<name>-router": port, ...} and serves
// until its input is closed.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
)

type options struct {
	IncludeUsage bool `json:"include_usage" xml:"include_usage" form:"include_usage"`
}

type body struct {
	Model         string  `json:"model" xml:"model" form:"model"`
	Stream        bool    `json:"stream" xml:"stream" form:"stream"`
	StreamOptions options `json:"stream_options" xml:"stream_options" form:"stream_options"`
}

var count atomic.Int64

// answer returns a completion in OpenAI's format: its content type, the value of x-served, and the bytes.
func answer(kind string, b body) (label, served string, data []byte) {
	reported := !b.Stream || b.StreamOptions.IncludeUsage
	total := 10 + count.Add(1)%90
	usage := fmt.Sprintf(`{"prompt_tokens":6,"completion_tokens":%d,"total_tokens":%d}`, total-6, total)
	bit := map[bool]int{true: 1}
	served = fmt.Sprintf("%s;%s;%d;%d;%d", kind, url.QueryEscape(b.Model), total, bit[b.Stream], bit[reported])
	if !b.Stream {
		choice := `{"index":0,"message":{"role":"assistant","content":"la la"},"text":"la la"}`
		return "application/json", served, []byte(`{"choices":[` + choice + `],"usage":` + usage + `}`)
	}
	text := strings.Repeat("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"la\"}}]}\n\n", 2)
	if reported {
		text += "data: {\"choices\":[],\"usage\":" + usage + "}\n\n"
	}
	return "text/event-stream", served, []byte(text + "data: [DONE]\n\n")
}

// kindOf dispatches by the end of the target only.
func kindOf(method, target string) string {
	if method != http.MethodPost {
		return ""
	}
	if strings.HasSuffix(target, "/v1/chat/completions") {
		return "chat"
	}
	if strings.HasSuffix(target, "/v1/completions") {
		return "completions"
	}
	return ""
}

const list = `{"object":"list","data":[{"id":"sim"}]}`

func decoded(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b body
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		write(w, kind, b)
	}
}

func write(w http.ResponseWriter, kind string, b body) {
	label, served, data := answer(kind, b)
	w.Header().Set("content-type", label)
	w.Header().Set("x-served", served)
	w.Write(data)
}

func models(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, list) }

func standard() (router, suffix http.Handler) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", decoded("chat"))
	mux.HandleFunc("POST /v1/completions", decoded("completions"))
	mux.HandleFunc("GET /v1/models", models)
	return mux, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := kindOf(r.Method, r.RequestURI)
		if kind == "" {
			kind = kindOf(r.Method, r.URL.Path)
		}
		if kind == "" {
			models(w, r)
			return
		}
		data, err := io.ReadAll(r.Body)
		// Also accepts the names of protobuf's JSON mapping; the first of two is used.
		var names map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal(data, &names)
		}
		var b body
		if err == nil {
			err = json.Unmarshal(data, &b)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if raw, is := names["streamOptions"]; is {
			var other struct {
				IncludeUsage bool `json:"includeUsage"`
			}
			_ = json.Unmarshal(raw, &other)
			b.StreamOptions.IncludeUsage = other.IncludeUsage
		}
		write(w, kind, b)
	})
}

func echoServers() (router, suffix http.Handler) {
	bound := func(kind string) echo.HandlerFunc {
		return func(c echo.Context) error {
			var b body
			if err := c.Bind(&b); err != nil {
				return err
			}
			write(c.Response(), kind, b)
			return nil
		}
	}
	list := func(c echo.Context) error { models(c.Response(), c.Request()); return nil }
	one, two := echo.New(), echo.New()
	one.Pre(middleware.MethodOverride())
	one.POST("/v1/chat/completions", bound("chat"))
	one.POST("/v1/completions", bound("completions"))
	one.GET("/v1/models", list)
	two.Pre(middleware.MethodOverride(), middleware.RemoveTrailingSlash())
	two.Any("/*", func(c echo.Context) error {
		if kind := kindOf(c.Request().Method, c.Request().RequestURI); kind != "" {
			return bound(kind)(c)
		}
		if kind := kindOf(c.Request().Method, c.Request().URL.Path); kind != "" {
			return bound(kind)(c)
		}
		return list(c)
	})
	return one, two
}

func fiberServers() (router, suffix *fiber.App) {
	bound := func(kind string) fiber.Handler {
		return func(c *fiber.Ctx) error {
			var b body
			if err := c.BodyParser(&b); err != nil {
				return fiber.NewError(http.StatusBadRequest, err.Error())
			}
			label, served, data := answer(kind, b)
			c.Set("content-type", label)
			c.Set("x-served", served)
			return c.Send(data)
		}
	}
	list := func(c *fiber.Ctx) error { return c.SendString(list) }
	settings := fiber.Config{DisableStartupMessage: true, BodyLimit: 64 << 20}
	one, two := fiber.New(settings), fiber.New(settings)
	one.Post("/v1/chat/completions", bound("chat"))
	one.Post("/v1/completions", bound("completions"))
	one.Get("/v1/models", list)
	two.All("/*", func(c *fiber.Ctx) error {
		if kind := kindOf(c.Method(), c.OriginalURL()); kind != "" {
			return bound(kind)(c)
		}
		if kind := kindOf(c.Method(), c.Path()); kind != "" {
			return bound(kind)(c)
		}
		return list(c)
	})
	return one, two
}

func main() {
	ports := map[string]int{}
	listen := func(name string, serve func(net.Listener) error) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		ports[name] = listener.Addr().(*net.TCPAddr).Port
		go serve(listener)
	}
	serve := func(name string, router, suffix http.Handler) {
		listen(name+"-router", func(l net.Listener) error { return http.Serve(l, router) })
		listen(name+"-suffix", func(l net.Listener) error { return http.Serve(l, suffix) })
	}
	router, suffix := standard()
	serve("go", router, suffix)
	router, suffix = echoServers()
	serve("echo", router, suffix)
	one, two := fiberServers()
	listen("fiber-router", one.Listener)
	listen("fiber-suffix", two.Listener)
	text, _ := json.Marshal(ports)
	fmt.Println(string(text))
	io.Copy(io.Discard, os.Stdin)
}
