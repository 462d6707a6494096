package sagacity_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is a Markdown file of the repository.
type page struct {
	path    string // from the root, with slashes
	fences  []fence
	prose   string          // without fences
	anchors map[string]bool // of its headings and of its <a id="…">
}

// fence is a fenced block with what the comment before it says.
type fence struct {
	at     string // file:line
	lang   string
	marker string
	text   string // without the indent of the fence
}

var (
	fenceRE   = regexp.MustCompile("^(\\s*)```([a-z]*)$")
	markerRE  = regexp.MustCompile(`^\s*<!-- (.+) -->$`)
	headingRE = regexp.MustCompile(`^#{1,6} (.+)$`)
	anchorRE  = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	linkRE    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	inlineRE  = regexp.MustCompile("`[^`\n]*`")
)

// readPage reads a page. A fence that does not end fails the test.
func readPage(t *testing.T, path string) *page {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{path: path, anchors: map[string]bool{}}
	var prose strings.Builder
	var open *fence
	var indent, marker string
	for i, line := range strings.Split(string(content), "\n") {
		m := fenceRE.FindStringSubmatch(line)
		switch {
		case open != nil && m != nil && m[2] == "":
			p.fences = append(p.fences, *open)
			open, marker = nil, ""
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case m != nil:
			open, indent = &fence{at: fmt.Sprintf("%s:%d", path, i+1), lang: m[2], marker: marker}, m[1]
		default:
			if found := markerRE.FindStringSubmatch(line); found != nil {
				marker = found[1]
			} else if strings.TrimSpace(line) != "" {
				marker = ""
			}
			p.addHeading(line)
			prose.WriteString(line + "\n")
		}
	}
	if open != nil {
		t.Fatalf("%s: the fence does not end", open.at)
	}
	p.prose = prose.String()
	for _, m := range anchorRE.FindAllStringSubmatch(p.prose, -1) {
		p.anchors[m[1]] = true
	}
	return p
}

// addHeading adds the anchor that GitHub gives a heading.
func (p *page) addHeading(line string) {
	m := headingRE.FindStringSubmatch(line)
	if m == nil {
		return
	}
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, m[1])
	unique := slug
	for n := 1; p.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", slug, n)
	}
	p.anchors[unique] = true
}

// links returns where the page links to.
func (p *page) links() []string {
	var all []string
	for _, m := range linkRE.FindAllStringSubmatch(inlineRE.ReplaceAllString(p.prose, "``"), -1) {
		all = append(all, m[1])
	}
	return all
}

// tableRows returns the cells of every table row of the page, without heads.
func (p *page) tableRows() [][]string {
	var rows [][]string
	for line := range strings.SplitSeq(p.prose, "\n") {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// pages returns all Markdown files of the repository.
func pages(t *testing.T) map[string]*page {
	t.Helper()
	all := map[string]*page{}
	for _, path := range files(t, ".md") {
		all[path] = readPage(t, path)
	}
	if len(all) < 10 {
		t.Fatalf("found hardly any page: %d", len(all))
	}
	return all
}

// files returns the files of the repository whose names end so, sorted.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || path == "bin"):
			return filepath.SkipDir
		case strings.HasSuffix(path, suffix):
			all = append(all, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// Every link within the repository leads to a file that exists, and to an anchor that it has.
func TestLinks(t *testing.T) {
	t.Parallel()
	all, checked := pages(t), 0
	for _, p := range all {
		for _, link := range p.links() {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
				continue
			}
			checked++
			target, anchor, _ := strings.Cut(link, "#")
			path := p.path
			if target != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), target))
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: the link %s leads nowhere", p.path, link)
				continue
			}
			if anchor != "" && (all[path] == nil || !all[path].anchors[anchor]) {
				t.Errorf("%s: the link %s names an anchor that %s has not", p.path, link, path)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links were found", checked)
	}
}

// The index lists every page.
func TestIndex(t *testing.T) {
	t.Parallel()
	index := readPage(t, "docs/README.md").links()
	for _, path := range files(t, ".md") {
		name, inDocs := strings.CutPrefix(path, "docs/")
		if inDocs && name != "README.md" && !strings.Contains(name, "/") && !slices.Contains(index, name) {
			t.Errorf("docs/README.md does not list %s: add one line on what it is for", name)
		}
	}
}
