//go:build tools

// Names the program whose version go.mod pins: Prometheus itself, as its own module builds it.
package tools

import _ "github.com/prometheus/prometheus/cmd/prometheus"
