import { mount } from 'svelte';
// First: it takes the token out of the address before anything reads the address.
import './lib/session.svelte';
import App from './App.svelte';
import './page.css';

mount(App, { target: document.getElementById('page')! });
