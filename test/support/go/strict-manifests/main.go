// Reads a stream of Kubernetes objects from stdin into the types of the API itself, and refuses every field that they
// do not have. Prints one line an object: its kind and name. Exit code 1 with the reason when one is refused.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

func typed(apiVersion, kind string) (any, error) {
	switch apiVersion + "/" + kind {
	case "v1/ConfigMap":
		return &core.ConfigMap{}, nil
	case "v1/Service":
		return &core.Service{}, nil
	case "apps/v1/Deployment":
		return &apps.Deployment{}, nil
	case "apps/v1/DaemonSet":
		return &apps.DaemonSet{}, nil
	case "monitoring.coreos.com/v1/ServiceMonitor":
		return &monitoring.ServiceMonitor{}, nil
	case "monitoring.coreos.com/v1/PrometheusRule":
		return &monitoring.PrometheusRule{}, nil
	}
	return nil, fmt.Errorf("no type for %s %s", apiVersion, kind)
}

func check(text []byte) error {
	var head struct {
		meta.TypeMeta   `json:",inline"`
		meta.ObjectMeta `json:"metadata"`
	}
	if err := strict.Unmarshal(text, &head); err != nil {
		return err
	}
	target, err := typed(head.APIVersion, head.Kind)
	if err != nil {
		return err
	}
	if err := strict.UnmarshalStrict(text, target); err != nil {
		return fmt.Errorf("%s %s: %w", head.Kind, head.Name, err)
	}
	fmt.Printf("%s %s\n", head.Kind, head.Name)
	return nil
}

func main() {
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = check(text)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
